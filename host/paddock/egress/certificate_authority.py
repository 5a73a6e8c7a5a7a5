"""Certificates for the hosts that keys are injected for, made for one module and one session, trusted by it alone.

The authority's key exists in memory only, ends with the gate, and signs for those hosts. Its certificate allows a
little more, since constraints on names have no finer form: every name below a host's as well, and for `*.x` also `x`
itself. A worker that trusts it trusts it for no other host. One certificate is made for each host, at the first request
for it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.plan.host_name import LOOPBACK, Host
from paddock.plan.net_rule import NetRule

_LIFETIME: Final = timedelta(days=30)  # longer than any session; the authority ends with its session
_CLOCKS_APART: Final = timedelta(hours=1)
_ALL_ADDRESSES: Final = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_LOCALHOST: Final = x509.DNSName("localhost")  # as clients also name the loopback, and grants always mean it
_MAX_CERTIFICATES: Final = 256  # a pattern stands for any number of hosts


class CertificateAuthority:
    """Signs for the hosts of `rules`."""

    def __init__(self, rules: Iterable[NetRule]) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Paddock, one session")])
        self._not_before = datetime.now(UTC) - _CLOCKS_APART
        self._certificate = self._signed(
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(_constraints(tuple(rules)), critical=True)
        )
        self._contexts: dict[Host, ssl.SSLContext] = {}

    @property
    def pem(self) -> str:
        """The certificate that the worker is to trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")

    def context_for(self, host: Host) -> ssl.SSLContext:
        """Return the TLS context that answers a client as this host, the same each time."""
        context = self._contexts.get(host)
        if context is None:
            if len(self._contexts) >= _MAX_CERTIFICATES:
                del self._contexts[next(iter(self._contexts))]
            context = self._contexts[host] = self._context(host)
        return context

    def _context(self, host: Host) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        # No common name: it would be held against the names that may be signed for, an address in it as well.
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Paddock")])
        names: list[x509.GeneralName] = [x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)]
        names += [_LOCALHOST] * (host == LOOPBACK)
        certificate = self._signed(
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        _load(context, certificate, key)
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._not_before)
            .not_valid_after(self._not_before + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )

    def _signed(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self._key, hashes.SHA256())


def _constraints(rules: tuple[NetRule, ...]) -> x509.NameConstraints:
    """Return the hosts that may be signed for; where there are none of a kind, all of that kind are excluded.

    A name stands for all names below it too (RFC 5280, section 4.2.1.10).
    """
    names = [x509.DNSName(rule.hosts.removeprefix("*.")) for rule in rules if isinstance(rule.hosts, str)]
    networks = [rule.hosts for rule in rules if isinstance(rule.hosts, IPv4Network | IPv6Network)]
    addresses = [x509.IPAddress(network) for network in networks]
    names += [_LOCALHOST] * any(LOOPBACK in network for network in networks)
    versions = {address.value.version for address in addresses}
    excluded: list[x509.GeneralName] = [x509.IPAddress(each) for each in _ALL_ADDRESSES if each.version not in versions]
    if not names:
        excluded.append(x509.DNSName(""))
    return x509.NameConstraints(permitted_subtrees=[*names, *addresses], excluded_subtrees=excluded or None)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _load(context: ssl.SSLContext, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    # OpenSSL is only given files here; this one is in memory, and gone when it is closed.
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
            file.write(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
