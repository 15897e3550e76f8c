"""Device selectors with every function and macro, for comparison with upstream."""

D = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
DRIVER = "gpu.example.com"
DEVICE = {
    "attributes": {
        "model": {"string": "A100"}, "index": {"int": 3}, "healthy": {"bool": True},
        "driverVersion": {"version": "535.1.0-rc.1"}, "other.com/rack": {"string": "r7"},
        "address": {"string": "10.0.0.7"}, "site": {"string": "https://a.example.com:8443/x?k=v"},
    },
    "capacity": {"memory": {"value": "40Gi"}, "other.com/slots": {"value": "7"}},
}  # fmt: skip


def nested(levels: int, body: str = "true") -> str:
    """Return ``levels`` loops over ten numbers, one inside the other."""
    for level in range(levels):
        body = f"{TEN}.all(x{level}, {body})"
    return body


DEVICES = f"""
true
false
1
"a"
device.driver
device.driver == "gpu.example.com"
device.driver == 1
device.bogus
device.bogus == 1
device
device == device
cel.bind(d, device, d.driver == "gpu.example.com")
cel.bind(d, device, d.attributes["gpu.example.com"].model == "A100")
cel.bind(d, device, d.attributes["no.com"].size() == 0)
cel.bind(a, device.attributes, a["no.com"].size() == 0)
cel.bind(a, device.attributes, a["gpu.example.com"].model == "A100")
cel.bind(g, {D}, g.model == "A100" && g.healthy)
cel.bind(x, 1, x + x) == 2
{D}.model == "A100"
{D}.model
{D}.healthy
{D}["healthy"]
{D}.index > 2
{D}.index > 2.5
{D}.index >= 3 && {D}.index <= 3
{D}.index + 1 == 4
{D}.index * 2 - 6 == 0
{D}.index / 2 == 1
{D}.index % 2 == 1
-{D}.index == -3
{D}.index == 3.0
{D}.index == 3u
{D}.model != 5
{D}.model > 1
{D}.model > "A"
{D}.nosuch == 1
{D}.nosuch == 1 || true
true || {D}.nosuch == 1
{D}.nosuch == 1 && false
{D}.nosuch == 1 && true
has({D}.nosuch)
has({D}.model)
has(device.attributes["no.com"].x)
has(device.attributes.nowhere)
device.attributes.nowhere.size() == 0
device.attributes["no.com"].x
"no.com" in device.attributes
"gpu.example.com" in device.attributes
"model" in {D}
"nosuch" in {D}
!("nosuch" in {D})
"x" in device.capacity["no.com"]
{D}.?model.orValue("none") == "A100"
{D}.?nosuch.orValue("none") == "none"
{D}.?nosuch.hasValue()
{D}[?"model"].hasValue()
device.attributes[?"no.com"].hasValue()
device.attributes.?nowhere.hasValue()
{D}.?index.orValue(0) == 3
optional.of(1).hasValue()
optional.none().hasValue()
optional.of(1).or(optional.of(2)).value() == 1
optional.ofNonZeroValue(0).hasValue()
optional.of(1).optMap(x, x + 1).value() == 2
optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2
optional.unwrap([optional.of(1), optional.none()]) == [1]
[optional.of(1), optional.none()].unwrapOpt() == [1]
[1, 2].first().value() == 1
[1, 2].last().value() == 2
[?optional.none(), 1].size() == 1
{{?"a": optional.of(1)}}.size() == 1
device.attributes.all(d, d != "")
device.attributes.exists(d, d == "other.com")
device.attributes.exists_one(d, d == "other.com")
device.attributes.map(d, d).size() == 2
device.attributes.filter(d, d.startsWith("gpu")).size() == 1
{D}.exists(k, k == "model")
{D}.all(k, k.size() > 0)
{D}.exists(k, v, k == "model" && v == "A100")
{D}.all(k, v, k != "")
{D}.existsOne(k, v, k == "index")
{D}.exists_one(k, v, k == "index")
{D}.transformList(k, v, k).size() == 6
{D}.transformList(k, v, k == "model", v) == ["A100"]
{D}.transformMap(k, v, k == "index", v + 1) == {{"index": 4}}
{D}.transformMap(k, v, 1).size() == 6
{D}.transformMapEntry(k, v, {{k + "x": v}}).size() == 6
[1, 2].transformMapEntry(i, v, {{"same": v}}).size() == 1
[1, 2].transformMap(i, v, v * 2) == {{0: 2, 1: 4}}
[1, 2].all(i, v, v == i + 1)
{D}.model.exists(x, x == "A")
{D}.index.all(x, true)
{D}.model.all(k, v, true)
{D}.model.map(x, x).size() == 1
"A100" in {D}.model
1 in {D}.model
{D}.model.size() == 4
{D}.model.includes("A100")
size({D}.model) == 4
{D}.model.startsWith("A") && {D}.model.endsWith("0") && {D}.model.contains("10")
{D}.model.matches("^A[0-9]+$")
{D}.model.matches("(")
{D}.model.matches({D}.model)
matches({D}.model, "A")
{D}.model.find("[0-9]+") == "100"
{D}.model.find("(")
{D}.model.find("x") == ""
"abc 123 def 456".findAll("[0-9]+") == ["123", "456"]
"abc 123 def 456".findAll("[0-9]*").size() == 12
"abc 123 def 456".findAll("[0-9]+", 1) == ["123"]
"abc".findAll("[0-9]+", 0) == []
"abc".findAll("") == ["", "", "", ""]
{D}.model.lowerAscii() == "a100"
{D}.model.upperAscii() == "A100"
{D}.model.charAt(0) == "A"
{D}.model.indexOf("1") == 1
{D}.model.indexOf("0", 3) == 3
{D}.model.lastIndexOf("0") == 3
{D}.model.replace("0", "1") == "A111"
{D}.model.replace("0", "1", 1) == "A110"
{D}.model.split("1") == ["A", "00"]
{D}.model.split("", 2).size() == 2
{D}.model.substring(1) == "100"
{D}.model.substring(1, 3) == "10"
{D}.model.substring(9) == ""
{D}.model.substring(1, 4) == "100"
{D}.model.substring(0, 5) == ""
{D}.model.substring(3, 2) == ""
[[[1]].flatten(), [2]].flatten() == [1, 2]
[3, 1].filter(x, x > 0).sortBy(x, -x) == [3, 1]
" a ".trim() == "a"
["a", "b"].join() == "ab"
["a", "b"].join("-") == "a-b"
"%s-%d".format(["a", 1]) == "a-1"
"%s".format([{D}.model]) == "A100"
"%.2f %x %b %e %o".format([1.5, 255, 5, 1.5, 8]) == "1.50 ff 101 1.500000e+00 10"
"%s".format([[1, "a", true]]) == "[1, a, true]"
"%d".format(["a"]) == "a"
strings.quote("a\\"b") == "\\"a\\\\\\"b\\""
"ab".reverse() == "ba"
[1, 2].reverse() == [2, 1]
[3, 1, 2].sort() == [1, 2, 3]
["b", "a"].sort() == ["a", "b"]
[true, false].sort() == [false, true]
[{{"a": 2}}, {{"a": 1}}].sortBy(x, x.a)[0].a == 1
[[1], [2, 3]].flatten() == [1, 2, 3]
[[[1]], [[2]]].flatten(2) == [1, 2]
[1, 1, 2].distinct() == [1, 2]
[1, 2, 3].slice(1, 3) == [2, 3]
[1, 2, 3].slice(2, 9) == [3]
lists.range(3) == [0, 1, 2]
lists.range(3).size() == 3
[1, 2, 2].isSorted()
[2, 1].isSorted()
["a", "b"].isSorted()
[true, false].isSorted()
[[1], [2]].isSorted()
[1, 2].sum() == 3
[1.5, 2.0].sum() == 3.5
[].sum() == 0
["a"].sum() == "a"
[duration("1m"), duration("1s")].sum() == duration("61s")
[duration("1m"), duration("1s")].min() == duration("1s")
[timestamp("2020-01-01T00:00:00Z"), timestamp("2021-01-01T00:00:00Z")].max().getFullYear() == 2021
[1, 2].min() == 1 && [1, 2].max() == 2
[].min() == 1
["b", "a"].min() == "a"
[1u, 2u].sum() == 3u
[1, 2, 2].indexOf(2) == 1
[1, 2, 2].lastIndexOf(2) == 2
["a"].indexOf("b") == -1
["a"].indexOf(1) == -1
[[1]].indexOf([1]) == 0
sets.contains([1, 2], [1])
sets.equivalent([1, 1, 2], [2, 1])
sets.intersects([1], [2])
sets.intersects([], [])
sets.contains([1], ["a"])
sets.contains([{D}.model], ["A100"])
[1, "a"].size() == 2
{{"a": 1, "b": "c"}}.size() == 2
[1, 1.0].size() == 2
[[1], []].size() == 2
[dyn(1), dyn("a")].size() == 2
1 == 1.0
1 < 1.5
1u < 2
1.5 >= 1u
"a" < 1
1 == "a"
dyn(1) == "a"
dyn(true)
dyn(1) == 1.0
1 + 1.0 == 2.0
int("5") == 5
int("x") == 5
int(5.9) == 5
double("1.5") == 1.5
uint(3) == 3u
string(5) == "5"
string(1.5) == "1.5"
string(true) == "true"
string(b"ab") == "ab"
bool("true")
bytes("a") == b"a"
b"a" < b"b"
type(1) == int
type({D}.model) == string
type({C}.memory) == string
duration("1h") > duration("1m")
duration("x") > duration("1m")
duration({D}.model) > duration("1m")
timestamp("2020-01-01T00:00:00Z") < timestamp("2021-01-01T00:00:00Z")
timestamp("2020-13-01T00:00:00Z") < timestamp("2021-01-01T00:00:00Z")
timestamp("2020-01-01T00:00:00Z") + duration("1h") == timestamp("2020-01-01T01:00:00Z")
timestamp("2020-01-01T00:00:00Z").getHours("America/New_York") == 19
duration("90m").getMinutes() == 90
string(duration("90m")) == "5400s"
string(timestamp("2020-01-01T00:00:00Z")) == "2020-01-01T00:00:00Z"
int(timestamp("1970-01-01T00:00:09Z")) == 9
9223372036854775807 + 1 == 0
9223372036854775808 == 0
-9223372036854775808 < 0
1 / 0 == 1
1.0 / 0.0 > 1.0
[1][5] == 1
{{"a": 1}}["b"] == 1
{{"a": 1}}.b == 1
null == null
1 in [1, 2]
"a" in {{"a": 1}}
true ? 1 == 1 : 2 == 3
true ? 1 : "a"
{C}.memory.isGreaterThan(quantity("1Ki"))
{C}.memory.isLessThan(quantity("1Ki"))
{C}.memory.compareTo(quantity("40Gi")) == 0
{C}.memory == quantity("40960Mi")
{C}.memory > quantity("1")
{C}.memory.add(quantity("1")).isGreaterThan({C}.memory)
{C}.memory.sub(1).isLessThan({C}.memory)
{C}.memory.asInteger() == 42949672960
{C}.memory.asApproximateFloat() > 1.0
{C}.memory.isInteger()
{C}.memory.sign() == 1
sign({C}.memory) == 1
{C}.memory.foo
{C}.memory == "40Gi"
quantity("1.5Gi") == quantity("1536Mi")
quantity("200K") == quantity("1")
quantity(1) == quantity("1")
isQuantity("1k") && !isQuantity("200K")
quantity("1500m").isInteger()
quantity("1500m").asInteger() == 1
semver("1.2.3-rc").isLessThan(semver("1.2.3"))
semver("v12.4", true) == semver("12.4.0")
semver("v12.4") == semver("12.4.0")
semver("01.2.3", true).major() == 1
semver("1.2-rc", true).minor() == 2
isSemver("1.2.3") && !isSemver("v1") && isSemver("v1", true)
{D}.driverVersion.isGreaterThan(semver("535.0.0"))
{D}.driverVersion.major() == 535
{D}.driverVersion.compareTo(semver("535.1.0")) == -1
{D}.driverVersion == semver("535.1.0-rc.1")
{D}.driverVersion == "535.1.0-rc.1"
quantity("1").isGreaterThan(semver("1.0.0"))
ip({D}.address).family() == 4
ip("::1").isLoopback() && ip("::").isUnspecified()
ip("1.2.3.4").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast()
ip("224.0.0.1").isLinkLocalMulticast() && ip("ff02::1").isLinkLocalMulticast()
ip("169.254.1.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()
ip("1.2.3.256").family() == 4
ip("::ffff:1.2.3.4").family() == 4
ip("fe80::1%eth0").family() == 6
ip("01.2.3.4").family() == 4
isIP("1.2.3.4") && !isIP("x") && isIP("2001:db8::1")
ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD")
ip.isCanonical("x")
string(ip("2001:DB8::1")) == "2001:db8::1"
ip("::1") == ip("0:0::1")
ip("1.2.3.4") == "1.2.3.4"
cidr("10.0.0.0/8").containsIP({D}.address)
cidr("10.0.0.0/8").containsIP(ip("11.0.0.1"))
cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")
cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))
cidr("10.0.0.1/8").masked() == cidr("10.0.0.0/8")
cidr("10.0.0.1/8").ip() == ip("10.0.0.1")
cidr("10.0.0.1/8").prefixLength() == 8
cidr("10.0.0.0/33").prefixLength() == 8
cidr("10.0.0.0").prefixLength() == 8
cidr("10.0.0.0/08").prefixLength() == 8
string(cidr("10.0.0.1/8")) == "10.0.0.1/8"
isCIDR("::1/128") && !isCIDR("::1/129")
cidr("10.0.0.0/8").containsIP("x")
url({D}.site).getHost() == "a.example.com:8443"
url({D}.site).getHostname() == "a.example.com" && url({D}.site).getPort() == "8443"
url({D}.site).getScheme() == "https" && url({D}.site).getEscapedPath() == "/x"
url({D}.site).getQuery() == {{"k": ["v"]}}
url("https://example.com/path with spaces/").getEscapedPath() == "/path%20with%20spaces/"
url("https://u:p@[::1]:80/?a=1&a=2&b").getQuery() == {{"a": ["1", "2"], "b": [""]}}
url("https://[::1]:80/").getHostname() == "::1"
url("https://example.com").getEscapedPath() == ""
url("/path").getHost() == ""
url("../x").getHost() == ""
url("https://a:b:c/").getHost() == ""
url("mailto:a@b.c").getScheme() == "mailto"
url("http://a/%zz").getHost() == ""
isURL("https://a.com") && !isURL("x") && isURL("/a") && !isURL("")
format.dns1123Label().validate("abc").hasValue()
format.dns1123Label().validate("a.b").value().size() == 1
format.dns1123Subdomain().validate("A").hasValue()
format.dns1035Label().validate("1a").hasValue()
format.qualifiedName().validate("a.com/b").hasValue()
format.dns1123LabelPrefix().validate("abc-").hasValue()
format.labelValue().validate("-").hasValue()
format.uri().validate("x").hasValue()
format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue()
format.byte().validate("!").hasValue()
format.date().validate("2020-01-01").hasValue()
format.datetime().validate("2020-01-01T00:00:00Z").hasValue()
format.named("dns1123Label").hasValue()
format.named("nosuch").hasValue()
format.named("uri").value().validate("/a").hasValue()
format.nosuch().validate("a").hasValue()
format.uri() == format.uri()
?!
device.driver = "x"
device.driver == "x" extra
nosuch
nosuch()
device.driver.nosuch()
device.attributes["gpu.example.com"
'single' == "single"
r"a\\b" == "a\\\\b"
"\\u00e9".size() == 1
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
[1, 2, 3].filter(x, x > 1).size() == 2
[1, 2].exists(x, y, x == y)
has(device.driver)
has(device)
{nested(3)}
{nested(5)}
{nested(6)}
{nested(7)}
{nested(4, "'a'.matches('a')")}
{nested(5, "int('1'.find('[0-9]*')) < 100")}
{D}.all(k, {D}.all(l, k != l || k == l))
{D}.all(k, {D}.all(l, {D}.all(m, k != l || k == m)))
device.attributes.all(d, device.attributes[d].all(k, device.attributes[d].all(l, k == l || k != l)))
{D}.model.replace("A", "{"x" * 100}").size() > 1
{D}.model.split("").map(x, x + x).join(",").size() > 0
google.protobuf.Int64Value{{value: 1}} == 1
timestamp(0) == timestamp("1970-01-01T00:00:00Z")
"a" + "b" == "ab"
[1] + [2] == [1, 2]
"abc"[0] == "a"
jsonpatch.escapeKey("a/b") == "a~1b"
math.greatest(1, 2) == 2
base64.encode(b"a") == "YQ=="
net.IP == net.IP
kubernetes.Quantity == kubernetes.Quantity
type(ip("::1")) == net.IP
""".strip().splitlines()

_LOOPS = "the engine stops after 10,000 rounds of loops, so it is refused at creation"
DIFFERENT: dict[str, str] = {
    nested(5): _LOOPS,
    nested(4, "'a'.matches('a')"): _LOOPS,
    nested(5, "int('1'.find('[0-9]*')) < 100"): _LOOPS,
    "google.protobuf.Int64Value{value: 1} == 1": "messages of protobuf are refused by name",
}
"""Selectors that we refuse or accept unlike upstream, and why."""
