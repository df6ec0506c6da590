package tool

import (
	"path/filepath"
	"slices"
	"strings"
)

// closed says why a place is not for a model, or "". It looks at the path as it was written and as it really is: a link with a
// harmless name is the oldest way around a list of names.
func (f *Files) closed(call Call, p *place, write bool) string {
	written := p.said
	if !filepath.IsAbs(written) {
		written = filepath.Join(f.base(call), written)
	}
	for _, path := range []string{filepath.Clean(written), p.real} {
		if why := f.closedPath(call, path, p.root.Name(), write); why != "" {
			return why
		}
	}
	return ""
}

func (f *Files) closedPath(call Call, path, root string, write bool) string {
	switch {
	case slices.Contains(f.denied, path):
		return "is a key or a setting of gatewayd"
	case f.insideHome(call, path, write):
		return "belongs to gatewayd itself (its databases, keys and settings)"
	case anySecret(path, root):
		return "may hold secrets or is a live database"
	case system(path, root, write):
		return "belongs to the system"
	case write && startsPrograms(path):
		return "is run or read by other programs of the user when they start"
	}
	return ""
}

// real is a path with its links followed, or as it is where that cannot be.
func real(path string) string {
	if r, err := resolved(path); err == nil {
		return r
	}
	return path
}

// insideHome knows what is gatewayd's own: everything in its homes but the directory in which the turn works, where that lies
// strictly inside, and for reading the results that were kept for this session.
func (f *Files) insideHome(call Call, path string, write bool) bool {
	if !write && f.opts.Spill != nil && (f.opts.Spill.Holds(call.Session, path) || within(real(filepath.Join(f.opts.Spill.Dir, fileName(call.Session))), path)) {
		return false
	}
	base := f.base(call)
	for _, spellings := range f.homes {
		for _, top := range spellings {
			if !within(top, path) {
				continue
			}
			mine := slices.ContainsFunc([]string{base, real(base)}, func(dir string) bool { return dir != top && within(top, dir) && within(dir, path) })
			if !mine {
				return true
			}
		}
	}
	return false
}

// secretNames are parts of a path whose content must not go to a model, nor come from one.
var secretNames = []string{
	".env", ".env.*", "api.key", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token",
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", "gcloud", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*",
	"*.pem", "*.p12", "*.pfx", "*.kdbx", "*.keystore", "*.jks", "credentials.json", "state.db*", "kanban.db*",
}

// harmless are names that only look like one of these.
var harmless = []string{".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub"}

// anySecret looks at the parts of a path below the root alone: where a person put the root is that person's business.
func anySecret(path, root string) bool {
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), secret)
}

func secret(part string) bool {
	part = strings.ToLower(part)
	return matches(secretNames, part) && !matches(harmless, part)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := filepath.Match(pattern, name)
		return ok
	})
}

// closedDirs are not for a model to write, and the first few not to read: they look like files and are the kernel's, the memory of
// this very process among them.
var (
	deviceDirs = []string{"/proc", "/sys", "/dev", "/run"}
	closedDirs = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/var"}
)

// system reports whether a path is the system's, unless the root was put inside of it.
func system(path, root string, write bool) bool {
	dirs := deviceDirs
	if write {
		dirs = slices.Concat(deviceDirs, closedDirs)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(dir, path) && !within(dir, root) })
}

// startup are files that other programs run or obey when they start: writing one is running a command later, past every approval.
var startup = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout",
	".kshrc", ".cshrc", ".tcshrc", ".login", "config.fish", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".inputrc", ".gitconfig", ".vimrc",
	"authorized_keys", "crontab", "sudoers",
}

// startupDirs are directories of such files.
var startupDirs = []string{".git/hooks", ".config/systemd", ".config/autostart", ".config/fish", ".local/share/systemd", ".config/environment.d"}

func startsPrograms(path string) bool {
	path = strings.ToLower(filepath.ToSlash(path))
	if matches(startup, filepath.Base(path)) || strings.HasSuffix(path, "/.git/config") {
		return true
	}
	return slices.ContainsFunc(startupDirs, func(dir string) bool { return strings.Contains(path, "/"+dir+"/") })
}
