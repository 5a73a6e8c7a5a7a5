"""An authority for the tests' own servers, as the public ones are for everybody's."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class TestAuthority:
    """Signs for any name, in a folder of the test's."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0), None)
        self.file = folder / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, *names: str) -> ssl.SSLContext:
        """Return what a server of these names, or addresses, speaks TLS with: the same each time."""
        if names not in self._servers:
            self._servers[names] = self._new_server(names)
        return self._servers[names]

    def client(self) -> ssl.SSLContext:
        """Return what trusts this authority and no other."""
        return ssl.create_default_context(cafile=str(self.file))

    def _new_server(self, names: tuple[str, ...]) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]),
            key,
            x509.BasicConstraints(ca=False, path_length=None),
            x509.SubjectAlternativeName([_general(name) for name in names]),
        )
        file = self._folder / f"{names[0]}.pem"
        file.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        basic: x509.BasicConstraints,
        names: x509.SubjectAlternativeName | None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(basic, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )
        if basic.ca:
            usage = dict.fromkeys(
                (
                    "digital_signature",
                    "content_commitment",
                    "key_encipherment",
                    "data_encipherment",
                    "key_agreement",
                    "crl_sign",
                    "encipher_only",
                    "decipher_only",
                ),
                False,
            )
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, **usage), critical=True)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
