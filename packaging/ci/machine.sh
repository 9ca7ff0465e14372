#!/bin/sh
# A second Linux system in namespaces, with a real systemd as its first process: the tests install the service in it.
# Root alone can start it. It shares the kernel with its host, and everything here sees to it that nothing else is
# shared: a copy of the root folder that is thrown away, own processes, own network without a way out, own cgroup, and
# no way to the kernel's settings, its clock, or a device.
#
#   machine.sh DIR CGROUP    boots; prints "pid N", the first process as its host sees it; DIR is an empty folder,
#                            CGROUP a folder that does not exist yet, in a cgroup v2 tree
#
# It lives until its standard input ends, so it ends with whoever started it, however that one ends. Then it takes away
# everything that it has made, DIR and CGROUP too.
set -eu

# outside holds the machine, and cleans up after it.
outside() {
	dir=$1 cgroup=$2
	mkdir "$cgroup"
	# Should this shell be killed, unshare goes with it, and the machine with unshare. Its own words are not wanted: it
	# takes it for an error that the machine is switched off in the end.
	sh -c 'echo $$ >"$1/cgroup.procs"; exec setpriv --pdeathsig KILL -- \
		unshare --mount --pid --fork --cgroup --uts --ipc --net --propagation private --kill-child=SIGKILL -- sh "$2" inside "$3"' \
		machine "$cgroup" "$0" "$dir" </dev/null 3>&2 2>/dev/null &
	holder=$!
	trap 'clean' EXIT
	trap 'exit 1' HUP INT TERM
	first=
	while [ -z "$first" ]; do
		kill -0 "$holder" 2>/dev/null || exit 1
		first=$(cat "/proc/$holder/task/$holder/children" 2>/dev/null) || true
		first=${first% }
		sleep 0.02
	done
	echo "pid $first"
	cat >/dev/null # until the one who started this is gone
}

clean() {
	# All others end with the first process; unshare waits for it and ends too.
	kill -KILL "${first:-$holder}" 2>/dev/null || true
	wait "$holder" 2>/dev/null || true
	# The first process may be gone before the last one is.
	for _ in $(seq 100); do
		find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || true
		[ -d "$cgroup" ] || break
		sleep 0.05
	done
	rmdir "$dir" 2>/dev/null || true
}

# inside makes the machine out of the namespaces that it finds itself in, and becomes its first process.
inside() {
	dir=$1
	exec 2>&3 3>&-
	mount -t tmpfs -o mode=755 machine "$dir"
	mkdir "$dir/upper" "$dir/work" "$dir/root"
	mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" machine "$dir/root"
	cd "$dir/root"
	kernel
	files
	units
	people
	mkdir -p .host
	pivot_root . .host
	cd /
	umount -l /.host
	rmdir /.host
	# As on a real machine: what is mounted later (a user's /run/user/UID) shows in services that have mounts of their own.
	mount --make-rshared /
	# Not even the first process can set the clock, load a module, or reach the machine's ports.
	exec setpriv --bounding-set=-sys_time,-sys_module,-sys_rawio,-syslog,-mac_admin -- \
		env -i container=steward-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --system --unit=multi-user.target --show-status=no --log-target=journal
}

# kernel shows the machine its own kernel objects. What would change the host's kernel is read-only.
kernel() {
	mount -t proc -o nosuid,nodev,noexec proc proc
	for name in sys sysrq-trigger irq bus fs; do
		[ -e "proc/$name" ] || continue
		mount --bind "proc/$name" "proc/$name"
		mount -o remount,bind,ro "proc/$name"
	done
	mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
	mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
	mount -t tmpfs -o mode=755,nosuid tmpfs dev
	for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
		name=${device%%:*} number=${device#*:}
		mknod -m 666 "dev/$name" c "${number%:*}" "${number#*:}"
	done
	mkdir dev/pts dev/shm
	mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
	mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
	ln -s pts/ptmx dev/ptmx
	ln -s /proc/self/fd dev/fd
	for n in 0:stdin 1:stdout 2:stderr; do
		ln -s "/proc/self/fd/${n%:*}" "dev/${n#*:}"
	done
}

# files makes folders that are the machine's own, and forgets what the host is.
files() {
	mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
	mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
	mount -t tmpfs -o mode=755,nosuid,nodev tmpfs home
	mount -t tmpfs -o mode=700,nosuid,nodev tmpfs root
	tr -d - <proc/sys/kernel/random/uuid >etc/machine-id
	: >etc/fstab
	echo machine >etc/hostname
	hostname machine
	rm -rf var/log/journal var/lib/systemd/linger var/lib/steward etc/steward
	# A journal on "disk", so that users may read theirs, and without a limit of lines: the tests read what was said.
	mkdir -p etc/systemd/journald.conf.d var/log/journal
	mount -t tmpfs -o mode=755,nosuid,nodev tmpfs var/log/journal
	printf '[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nForwardToSyslog=no\n' >etc/systemd/journald.conf.d/machine.conf
}

# units leaves only those that make a login possible; nothing of the host starts.
units() {
	for folder in lib/systemd/system etc/systemd/system usr/lib/systemd/user etc/systemd/user; do
		[ -d "$folder" ] && find "$folder" -path '*.wants/*' -delete
	done
	rm -rf etc/systemd/system-generators etc/systemd/user-generators
	mkdir -p etc/systemd/system-generators etc/systemd/user-generators
	for kind in system user; do
		for program in lib/systemd/"$kind"-generators/* usr/lib/systemd/"$kind"-generators/*; do
			ln -sf /dev/null "etc/systemd/$kind-generators/${program##*/}"
		done
	done
	want sysinit.target systemd-journald.service systemd-journal-flush.service systemd-tmpfiles-setup.service
	want sockets.target systemd-journald.socket systemd-journald-dev-log.socket dbus.socket
	want multi-user.target dbus.service systemd-logind.service systemd-user-sessions.service
	rm -f usr/share/dbus-1/services/*otif* # whoever shows popups on the host cannot here
	mkdir -p etc/systemd/user/sockets.target.wants
	ln -s /usr/lib/systemd/user/dbus.socket etc/systemd/user/sockets.target.wants/dbus.socket
	for unit in systemd-sysctl systemd-modules-load systemd-remount-fs systemd-update-utmp systemd-udevd systemd-timesyncd \
		systemd-udev-trigger systemd-random-seed systemd-pstore systemd-hwdb-update systemd-binfmt modprobe@; do
		ln -sf /dev/null "etc/systemd/system/$unit.service"
	done
	for unit in systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-journald-audit.socket \
		proc-sys-fs-binfmt_misc.automount sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount \
		sys-fs-fuse-connections.mount sys-kernel-config.mount tmp.mount; do
		ln -sf /dev/null "etc/systemd/system/$unit"
	done
}

want() {
	folder=etc/systemd/system/$1.wants
	shift
	mkdir -p "$folder"
	for unit; do
		ln -s "/lib/systemd/system/$unit" "$folder/$unit"
	done
}

# people leaves root, the accounts of the system, and jesse.
people() {
	for file in passwd group shadow gshadow; do
		[ -f "etc/$file" ] && sed -i -e '/^jesse:/d' -e '/^[^:]*:[^:]*:1000:/d' "etc/$file"
	done
	echo 'jesse:x:1000:1000:Jesse:/home/jesse:/bin/bash' >>etc/passwd
	echo 'jesse:x:1000:' >>etc/group
	echo 'jesse:*:20000:0:99999:7:::' >>etc/shadow
	mkdir -p home/jesse
	chmod 750 home/jesse
	chown 1000:1000 home/jesse
}

case ${1-} in
inside) shift && inside "$@" ;;
*) outside "$@" ;;
esac
