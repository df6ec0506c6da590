package tool

import "testing"

func TestTheFloorKnowsTheUsualDisguises(t *testing.T) {
	for _, command := range []string{
		"rm -rf /", "rm -rf /*", "rm -fr //", "sudo rm -r -f /", "/bin/rm -rf /", `"rm" -rf "/"`, `r\m -rf /`, "rm --recursive --force /",
		"rm -rf /. ", "rm -rf --no-preserve-root /", "cd /tmp && rm -rf /", "true; rm -rf /", "$(rm -rf /)", "`rm -rf /`", "bash -c 'rm -rf /'",
		"sudo env A=b nohup rm -rf /", "timeout 5 rm -rf /", "rm${IFS}-rf${IFS}/", "rm$IFS-rf$IFS/", "ｒｍ -rf /", "rm\u200b -rf /", "rm \\\n-rf /",
		"echo / | xargs rm -rf /", "if true; then rm -rf /; fi", "find / -delete", "chmod -R 777 /", "chown -R nobody /",
		"mkfs.ext4 /dev/sda1", "mkfs /dev/nvme0n1", "wipefs -a /dev/vda", "dd if=/dev/zero of=/dev/sda bs=1M", "cat x > /dev/sda", "echo x >/dev/nvme0n1",
		":(){ :|:& };:", "bomb() { bomb | bomb & }; bomb", "kill -9 -1", "kill -s KILL -1", "kill -- -1", "shred /dev/sda",
	} {
		if Catastrophe(command) == "" {
			t.Errorf("not refused: %q", command)
		}
	}
}

func TestTheFloorLeavesOrdinaryWorkAlone(t *testing.T) {
	for _, command := range []string{
		"ls /", "rm -rf ./build", "rm -rf /tmp/x", "rm /", "echo rm -rf /", "grep -r foo /etc", "find / -name '*.go'", "find . -delete",
		"find / -name core -delete", "chmod -R u+w ./x", "mkfs.ext4 disk.img", "dd if=/dev/sda of=backup.img", "dd if=/dev/zero of=x bs=1 count=1",
		"cp a b", "kill 1234", "kill -1 1234", "kill -9 1234", "echo x > /dev/null", "cat /dev/null > x", "sh -c 'ls -la'", "", "git rm -r --cached .",
		"f() { echo hi; }; f", "tee /tmp/x", "rm -rf \"$HOME/x\"",
	} {
		if what := Catastrophe(command); what != "" {
			t.Errorf("refused: %q would %s", command, what)
		}
	}
}

func FuzzTheFloorNeverFails(f *testing.F) {
	f.Add("rm -rf /")
	f.Add("\xff'\"\\")
	f.Fuzz(func(_ *testing.T, command string) { Catastrophe(command) })
}
