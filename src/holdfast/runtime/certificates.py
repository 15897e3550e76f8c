"""Create the keys and certificates of a cluster on one machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = 86400
CA_DAYS = 3650
LEAF_DAYS = 365
_SKEW = 300  # seconds before now from which on a certificate is valid, for clock skew


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: int
) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(now - _SKEW, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=is_ca, crl_sign=is_ca,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def make_authority(common_name: str, now: float) -> KeyPair:
    """Create a self-signed certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, name, key.public_key(), now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _sign(authority: KeyPair, subject: x509.Name, now: float, purpose: x509.ObjectIdentifier,
          names: Sequence[x509.GeneralName] = ()) -> KeyPair:  # fmt: skip
    ca = x509.load_pem_x509_certificate(authority.certificate)
    ca_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, ca.subject, key.public_key(), now, LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(ca_key, hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def make_server_certificate(authority: KeyPair, hosts: Sequence[str], now: float) -> KeyPair:
    """Create a server certificate for host names and addresses."""
    names = [_general_name(host) for host in hosts]
    return _sign(
        authority, _name("holdfast-apiserver"), now, ExtendedKeyUsageOID.SERVER_AUTH, names
    )


def make_client_certificate(
    authority: KeyPair, user: str, groups: Sequence[str], now: float
) -> KeyPair:
    """Create a client certificate: CN is the user, O are the groups."""
    return _sign(authority, _name(user, groups), now, ExtendedKeyUsageOID.CLIENT_AUTH)


def covers(certificate: bytes, hosts: Sequence[str], now: float) -> bool:
    """Return whether a certificate has all hosts and is valid for another thirty days."""
    cert = x509.load_pem_x509_certificate(certificate)
    if cert.not_valid_after_utc.timestamp() < now + 30 * _DAY:
        return False
    if not hosts:
        return True
    try:
        listed = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return {_general_name(host) for host in hosts} <= set(listed)
