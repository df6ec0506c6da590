package tool

import (
	"slices"
	"strings"
)

var systemRules = []rule{
	{"as-root", "runs as root or as another user", func(a action) bool { return a.is("sudo", "doas", "pkexec", "su", "runuser") }},
	{"service-control", "stops, restarts or switches off services of this machine", func(a action) bool {
		switch {
		case a.is("systemctl"):
			return a.has("stop", "restart", "try-restart", "reload-or-restart", "kill", "disable", "mask", "isolate", "emergency", "rescue", "daemon-reexec", "set-default", "revert", "edit")
		case a.is("service", "rc-service", "initctl", "sv", "supervisorctl", "pm2", "launchctl"):
			return a.has("stop", "restart", "delete", "kill", "remove", "unload", "bootout", "shutdown", "down")
		case a.is("update-rc.d", "chkconfig", "loginctl"):
			return a.has("disable", "remove", "off", "terminate-session", "terminate-user", "kill-user", "kill-session")
		}
		return false
	}},
	{"power", "stops or restarts this machine", func(a action) bool {
		return a.is("shutdown", "reboot", "halt", "poweroff", "telinit", "kexec") || a.is("init") && a.has("0", "6", "1", "s") ||
			a.is("systemctl") && a.has("reboot", "poweroff", "halt", "suspend", "hibernate", "kexec", "soft-reboot")
	}},
	{"kill-by-name", "ends processes by their names, whoever they belong to", func(a action) bool {
		return a.is("pkill", "killall", "skill", "killall5") || a.is("fuser") && (a.short("k") || a.has("--kill"))
	}},
	{"kill-computed", "ends processes that are only known when it runs", func(a action) bool {
		if !a.is("kill") {
			return false
		}
		for _, w := range a.args {
			if w.Open && w.Text != "$!" && w.Text != "$$" && !strings.HasPrefix(w.Text, "%") {
				return true
			}
		}
		return a.fed
	}},
	{"package-removal", "removes installed programs", func(a action) bool {
		verb, rest := a.verb(nil)
		switch {
		case a.is("apt", "apt-get", "aptitude"):
			return slices.Contains([]string{"remove", "purge", "autoremove", "autopurge", "dist-upgrade", "full-upgrade"}, verb)
		case a.is("dpkg"):
			return a.short("rP") || a.has("--remove", "--purge")
		case a.is("yum", "dnf", "zypper", "microdnf"):
			return slices.Contains([]string{"remove", "erase", "autoremove", "rm"}, verb)
		case a.is("rpm"):
			return a.short("e") || a.has("--erase")
		case a.is("pacman", "yay", "paru"):
			return hasShort(a.texts(), "R")
		case a.is("apk"):
			return verb == "del"
		case a.is("brew", "snap", "flatpak", "port", "choco", "winget"):
			return slices.Contains([]string{"uninstall", "remove", "rm", "autoremove"}, verb)
		case a.is("pip", "pip3", "pipx", "gem", "cargo", "conda", "mamba"):
			return slices.Contains([]string{"uninstall", "remove", "uninstall-all"}, verb)
		case a.is("python", "python3"):
			return a.has("-m") && a.has("pip") && a.has("uninstall")
		case a.is("npm", "pnpm", "yarn"):
			return (verb == "uninstall" || verb == "remove" || verb == "rm" || verb == "unpublish") && (verb == "unpublish" || slices.Contains(rest, "-g") || slices.Contains(rest, "--global"))
		}
		return false
	}},
	{"disk", "changes disks, partitions or mounts", func(a action) bool {
		return a.is("mkfs", "mke2fs", "mkswap", "pvcreate", "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "lvremove", "vgremove", "pvremove",
			"lvreduce", "cryptsetup", "mdadm", "mount", "umount", "swapoff", "hdparm", "resize2fs", "tune2fs", "zpool", "btrfs") && !onlyLooks(a) ||
			strings.HasPrefix(a.name, "mkfs.") || a.is("zfs") && a.has("destroy", "rollback") || a.is("nvme") && a.has("format", "sanitize") || a.is("badblocks") && a.short("wn")
	}},
	{"kernel", "changes the running kernel", func(a action) bool {
		return a.is("insmod", "rmmod", "modprobe") || a.is("sysctl") && (a.short("wp") || slices.ContainsFunc(a.operands(), func(arg string) bool { return strings.Contains(arg, "=") }))
	}},
	{"firewall", "changes the firewall or the network", func(a action) bool {
		switch {
		case a.is("iptables", "ip6tables", "ebtables", "arptables"):
			return !a.has("-L", "-S", "--list", "--list-rules") && !a.short("LS")
		case a.is("nft"):
			return a.has("flush", "delete", "add", "-f", "insert", "replace")
		case a.is("ufw"):
			return !a.has("status", "version") && len(a.args) > 0
		case a.is("firewall-cmd"):
			return !slices.ContainsFunc(a.texts(), func(arg string) bool {
				return strings.HasPrefix(arg, "--list") || strings.HasPrefix(arg, "--get") || arg == "--state"
			})
		case a.is("ip"):
			return a.has("del", "delete", "flush", "down")
		case a.is("ifconfig"):
			return a.has("down")
		}
		return false
	}},
	{"accounts", "changes accounts or passwords", func(a action) bool {
		return a.is("passwd", "chpasswd", "useradd", "adduser", "userdel", "deluser", "usermod", "groupadd", "groupdel", "groupmod", "gpasswd", "visudo", "vipw", "chsh")
	}},
	{"schedule", "changes what runs by itself at set times", func(a action) bool {
		return a.is("crontab") && !a.has("-l") || a.is("at", "batch", "atrm") || a.is("systemd-run")
	}},
	{"history", "hides what was done", func(a action) bool {
		return a.is("history") && a.short("cw") || a.is("journalctl") && slices.ContainsFunc(a.texts(), func(arg string) bool { return strings.HasPrefix(arg, "--vacuum") }) || a.is("auditctl")
	}},
}

// onlyLooks knows the disk programs' ways of looking.
func onlyLooks(a action) bool {
	switch {
	case a.is("mount"):
		return len(a.operands()) == 0
	case a.is("fdisk", "sfdisk", "parted", "gdisk", "sgdisk"):
		return a.short("lp") || a.has("--list", "print")
	case a.is("zpool", "btrfs"):
		return !a.has("destroy", "labelclear", "delete", "remove", "offline", "detach")
	case a.is("mdadm"):
		return a.has("--detail", "--examine", "-D", "-E", "--query")
	case a.is("cryptsetup"):
		return a.has("status", "luksDump", "isLuks")
	case a.is("hdparm"):
		return a.short("iItT")
	case a.is("wipefs"):
		return !a.short("af") && !a.has("--all")
	case a.is("tune2fs"):
		return a.short("l")
	}
	return false
}

var remoteRules = []rule{
	{"container-destroy", "deletes containers, images or volumes", func(a action) bool {
		if !a.is("docker", "podman", "nerdctl", "docker-compose", "podman-compose") {
			return false
		}
		args := a.texts()
		switch verb, rest := a.verb([]string{"--context", "-H", "--host", "-f", "--file", "-p", "--project-name"}); verb {
		case "system", "volume", "image", "container", "network", "builder", "buildx":
			return slices.Contains(rest, "prune") || slices.Contains(rest, "rm") || slices.Contains(rest, "remove")
		case "rm", "rmi", "kill":
			return true
		case "compose":
			return slices.Contains(rest, "down") && (hasShort(rest, "v") || slices.Contains(rest, "--volumes") || slices.Contains(rest, "--rmi")) || slices.Contains(rest, "rm")
		case "down":
			return hasShort(args, "v") || slices.Contains(rest, "--volumes")
		case "run":
			return slices.Contains(rest, "--privileged") || slices.ContainsFunc(rest, func(arg string) bool {
				return strings.HasPrefix(arg, "/:") || strings.Contains(arg, "=/:") || strings.Contains(arg, "docker.sock")
			})
		}
		return false
	}},
	{"cluster-change", "deletes or drains what runs in a cluster", func(a action) bool {
		switch verb, _ := a.verb([]string{"-n", "--namespace", "--context", "--kubeconfig"}); {
		case a.is("kubectl", "oc", "k9s"):
			return slices.Contains([]string{"delete", "drain", "cordon", "replace", "scale", "rollout", "taint"}, verb)
		case a.is("helm"):
			return slices.Contains([]string{"uninstall", "delete", "rollback"}, verb)
		}
		return false
	}},
	{"cloud-destroy", "deletes things in a cloud", func(a action) bool {
		switch {
		case a.is("terraform", "tofu", "pulumi", "terragrunt"):
			return a.has("destroy") || a.has("-auto-approve", "--auto-approve", "--yes")
		case a.is("aws"):
			return slices.ContainsFunc(a.operands(), func(arg string) bool {
				return arg == "rm" || arg == "rb" || strings.HasPrefix(arg, "delete-") || strings.HasPrefix(arg, "terminate-")
			})
		case a.is("gcloud", "az", "doctl", "hcloud", "flyctl", "fly", "heroku", "gsutil"):
			return slices.ContainsFunc(a.operands(), func(arg string) bool {
				return arg == "delete" || arg == "destroy" || arg == "rm" || strings.HasSuffix(arg, ":destroy")
			})
		case a.is("gh", "glab"):
			return a.has("delete")
		case a.is("vercel", "netlify", "wrangler"):
			return a.has("delete", "remove", "rm")
		}
		return false
	}},
	{"publish", "publishes a package for everybody", func(a action) bool {
		verb, _ := a.verb(nil)
		return a.is("npm", "pnpm", "yarn", "cargo", "poetry", "gem", "flit") && (verb == "publish" || a.is("gem") && verb == "push") || a.is("twine") && verb == "upload"
	}},
}
