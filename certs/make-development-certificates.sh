#!/bin/sh
# Makes a certificate authority for development and, signed by it, a serving certificate for the webhook. Neither is for
# anything but development: the authority's key lies beside the certificates, unprotected.
#
#   certs/make-development-certificates.sh DIRECTORY [NAMESPACE]
#
# writes ca.crt, ca.key, tls.crt and tls.key into DIRECTORY, which must not hold any of them yet.
set -eu

directory=${1:?"usage: $0 DIRECTORY [NAMESPACE]"}
namespace=${2:-hnc-system}
host=hnc-webhook-service.$namespace.svc
days=90

for file in ca.crt ca.key tls.crt tls.key; do
    if [ -e "$directory/$file" ]; then
        echo "$directory/$file exists; choose another directory, or move it away" >&2
        exit 1
    fi
done

umask 077
mkdir -p "$directory"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

new_key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

new_key "$scratch/ca.key"
openssl req -x509 -new -sha256 -days "$days" -key "$scratch/ca.key" -out "$scratch/ca.crt" \
    -subj "/O=hns development/CN=hns development CA" \
    -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
    -addext "keyUsage=critical,keyCertSign,cRLSign"

# The API server compares the host name with the subject alternative names alone.
cat >"$scratch/extensions" <<END
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:$host, DNS:$host.cluster.local
END

new_key "$scratch/tls.key"
openssl req -new -sha256 -key "$scratch/tls.key" -out "$scratch/tls.csr" -subj "/O=hns development"
openssl x509 -req -sha256 -days "$days" -in "$scratch/tls.csr" -out "$scratch/tls.crt" \
    -CA "$scratch/ca.crt" -CAkey "$scratch/ca.key" -set_serial "0x$(openssl rand -hex 16)" \
    -extfile "$scratch/extensions"

mv "$scratch/ca.crt" "$scratch/ca.key" "$scratch/tls.crt" "$scratch/tls.key" "$directory"
echo "$directory: ca.crt, ca.key, tls.crt and tls.key for $host, valid for $days days"
