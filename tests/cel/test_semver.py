import pytest

from holdfast.api.cel.semver import Semver
from holdfast.runtime.errors import BadRequest

IN_ORDER = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
    "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
]  # fmt: skip


def test_versions_sort_as_the_standard_says():
    versions = [Semver.parse(text) for text in IN_ORDER]
    assert sorted(reversed(versions)) == versions
    assert [str(v) for v in versions] == IN_ORDER


def test_build_metadata_does_not_matter():
    assert Semver.parse("1.0.0+a") == Semver.parse("1.0.0+b")


@pytest.mark.parametrize("text", ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0-01", "", "1.0.0-"])
def test_a_loose_version_is_rejected(text):
    with pytest.raises(BadRequest, match="parse semantic version"):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "means"), [("v1", "1.0.0"), ("01.2", "1.2.0"), ("v12.4.0-rc", "12.4.0-rc")]
)
def test_a_loose_version_can_be_normalized(text, means):
    assert Semver.parse(text, normalize=True) == Semver.parse(means)


def test_a_short_version_has_no_prerelease():
    with pytest.raises(BadRequest, match="parse semantic version"):
        Semver.parse("v12.4-rc", normalize=True)
