#!/bin/sh
# Makes what compose.yml needs and nobody should have a copy of: a private certificate authority with a certificate for the
# broker, an account for the bridge and for each peer that is named, and the token of MCP clients.
#
#   docker/secrets.sh [PEER...]
#
# PLANTBRIDGE_SECRETS names another folder than the one beside this file; PLANTBRIDGE_BROKER_NAME a further name under which peers
# reach the broker. Nothing that is there already is made anew, so that a peer can be added later. Needs openssl, and
# mosquitto_passwd or docker.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
folder=${PLANTBRIDGE_SECRETS:-$here}
mkdir -p "$folder/secrets"
# What containers read has to be readable by their users; that this folder is ours alone keeps others on this machine out.
chmod 700 "$folder/secrets"
cd "$folder/secrets"

random() {
    openssl rand -hex 32
}

if [ ! -e ca.pem ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout ca-key.pem -out ca.pem -days 3650 \
        -subj "/CN=plantbridge authority" -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" 2>/dev/null
fi

if [ ! -e broker.pem ]; then
    names="DNS:broker,DNS:localhost,IP:127.0.0.1${PLANTBRIDGE_BROKER_NAME:+,DNS:$PLANTBRIDGE_BROKER_NAME}"
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" >extensions
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout broker-key.pem -out request.pem \
        -subj "/CN=broker" 2>/dev/null
    openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 825 -extfile extensions \
        -out broker.pem 2>/dev/null
    rm -f request.pem extensions ca.srl
fi

# The passwords go by files: what stands in a command line can be read by everybody.
: >added
for peer in bridge "$@"; do
    case $peer in
    *[!A-Za-z0-9._-]* | "")
        echo "secrets.sh: '$peer' cannot be the name of an account: letters, digits, dots, dashes and underscores" >&2
        exit 2
        ;;
    esac
    if [ ! -e "$peer.password" ]; then
        random >"$peer.password"
        printf '%s:%s\n' "$peer" "$(cat "$peer.password")" >>added
    fi
done
if [ -s added ]; then
    if command -v mosquitto_passwd >/dev/null; then
        mosquitto_passwd -U added
    else
        docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$PWD:/secrets" --entrypoint mosquitto_passwd \
            "${MOSQUITTO_IMAGE:-docker.io/library/eclipse-mosquitto:2.0.20}" -U /secrets/added
    fi
    cat added >>accounts
fi
rm -f added
chmod 444 accounts ca.pem broker.pem broker-key.pem

if [ ! -e "$folder/.env" ]; then
    printf 'COMPOSE_PROJECT_NAME=plantbridge\nPLANTBRIDGE_MCP_TOKEN=%s\nPLANTBRIDGE_MQTT_PASSWORD=%s\n' "$(random)" "$(cat bridge.password)" >"$folder/.env"
fi
