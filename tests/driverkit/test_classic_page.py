"""The code on the page about writing a classic driver is code that the kit accepts."""

import re
from pathlib import Path

from holdfast.cli.driver.project import write_project
from holdfast.driver import Driver, FreeDevice
from holdfast.node.driverkit.classic_dra.fitting import quantity

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-classic-driver.md"


def test_the_code_of_the_page_is_accepted(tmp_path):
    first, *others, _test = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    module = {}
    exec(first, module)
    module["driver"].check()
    free = [FreeDevice("device-0", {}, {"memory": quantity("2Gi")})]
    fits = module["driver"].classic.fit_functions().fits
    assert fits(free, module["Requirements"]("2Gi"), None).shares[0].device == "device-0"
    assert fits(free, module["Requirements"]("3Gi"), None) is None
    for block in others:
        exec(block, {**module, "driver": Driver("gpu.example.com")})
    write_project("gpu.example.com", tmp_path / "new", classic=True)
    written = (tmp_path / "new" / "driver.py").read_text()
    assert [line for line in first.splitlines() if line.strip() and line not in written] == []
