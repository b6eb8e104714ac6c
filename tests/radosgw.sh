#!/usr/bin/env bash
# Ceph's S3 server (radosgw) on 127.0.0.1:PORT, for tests: one monitor and one OSD, whose objects are
# in memory. Everything is in FOLDER, and all of it ends with this process, however that ends.
# Usage: radosgw.sh FOLDER PORT MONITOR_PORT     ACCESS_KEY, SECRET_KEY: of its one user
set -euo pipefail
folder=$1 port=$2 monitor_port=$3
config=$folder/ceph.conf keyring=$folder/keyring
cluster=$(cat /proc/sys/kernel/random/uuid)
osd=$(cat /proc/sys/kernel/random/uuid)
mkdir -p "$folder"/{mon,osd,run}

cat >"$config" <<CONF
[global]
fsid = $cluster
mon host = v1:127.0.0.1:$monitor_port
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
keyring = $keyring
run dir = $folder/run
pid file = $folder/run/\$name.pid
admin socket = $folder/run/\$name.asok
log file = $folder/\$name.log
crash dir = $folder
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
public addr = 127.0.0.1
ms bind ipv6 = false
[mon.a]
mon data = $folder/mon
[osd.0]
osd data = $folder/osd
osd objectstore = memstore
memstore device bytes = 2147483648
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
CONF

# The kernel ends each with us.
daemon() { setpriv --pdeathsig KILL -- "$@" >>"$folder/daemons.log" 2>&1 & }

ceph-authtool --create-keyring "$keyring" --gen-key -n mon. --cap mon 'allow *' >&2
ceph-authtool "$keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' \
  --cap mgr 'allow *' >&2
monmaptool --create --clobber --fsid "$cluster" --addv a "v1:127.0.0.1:$monitor_port" \
  "$folder/monmap" >&2
ceph-mon -c "$config" --mkfs -i a --monmap "$folder/monmap" --keyring "$keyring"
daemon ceph-mon -c "$config" -i a -f
# The monitor knows the OSD by this id; with another it never comes up.
ceph -c "$config" --connect-timeout 50 osd new "$osd" >&2
ceph-osd -c "$config" -i 0 --mkfs --osd-uuid "$osd"
daemon ceph-osd -c "$config" -i 0 -f
timeout 50 radosgw-admin -c "$config" -n client.rgw user create --uid=tests --display-name=tests \
  --access-key="$ACCESS_KEY" --secret-key="$SECRET_KEY" >"$folder/user.json"
exec radosgw -c "$config" -n client.rgw -f
