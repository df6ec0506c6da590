// Package deploy reads the Dockerfile beside it the way an engine does, so that tests can build the root file system that the image will
// have, play the container without an engine, and compare with the Dockerfile what else names its port, its user and its volume. The
// program itself does not use it.
package deploy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed Dockerfile
var dockerfile string

// Compose and Kubernetes are the files beside the Dockerfile.
var (
	//go:embed compose.yaml
	Compose string
	//go:embed kubernetes.yaml
	Kubernetes string
)

// Image is what the Dockerfile says of the image, and of how it comes to be.
type Image struct {
	Runs   []string // the commands of the build stage, in order
	Copies []Copy   // into the image, in order

	UID, GID   int
	Env        []string // KEY=VALUE
	Volume     string
	Port       string
	Stop       string // signal that ends it
	Entrypoint []string
	Health     []string // argv of the health check
	Labels     []string // KEY=VALUE, with ${VERSION} as it stands there
}

// Copy is one COPY from the build stage; the numbers are those of its owner in the image.
type Copy struct {
	From, To string
	UID, GID int
}

// Read gives the image of the Dockerfile. It knows the instructions that are used there and refuses others.
func Read() (Image, error) { return parse(dockerfile) }

func parse(text string) (image Image, err error) {
	final := false // the stage that is shipped
	for _, line := range instructions(text) {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if word == "FROM" {
			final = rest == "scratch"
			continue
		}
		if err := image.take(final, word, rest); err != nil {
			return Image{}, fmt.Errorf("read Dockerfile: %s: %w", line, err)
		}
	}
	return image, nil
}

// instructions joins continued lines and drops comments.
func instructions(text string) (lines []string) {
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (i *Image) take(final bool, word, rest string) (err error) {
	if !final {
		if word == "RUN" {
			i.Runs = append(i.Runs, rest)
		} else if !slices.Contains([]string{"WORKDIR", "COPY", "ARG"}, word) {
			return fmt.Errorf("unknown to these tests in the build stage")
		}
		return nil
	}
	switch word {
	case "COPY":
		var c Copy
		c, err = parseCopy(rest)
		i.Copies = append(i.Copies, c)
	case "USER":
		i.UID, i.GID, err = owner(rest)
	case "ENV":
		i.Env = append(i.Env, strings.Fields(rest)...)
	case "VOLUME":
		i.Volume = rest
	case "LABEL":
		i.Labels = append(i.Labels, strings.Fields(rest)...)
	case "ARG": // for a label
	case "EXPOSE":
		i.Port = rest
	case "STOPSIGNAL":
		i.Stop = rest
	case "HEALTHCHECK":
		_, argv, _ := strings.Cut(rest, "CMD ")
		err = json.Unmarshal([]byte(argv), &i.Health)
	case "ENTRYPOINT":
		err = json.Unmarshal([]byte(rest), &i.Entrypoint)
	default:
		return fmt.Errorf("unknown to these tests in the shipped stage")
	}
	return err
}

func parseCopy(rest string) (c Copy, err error) {
	var paths []string
	for _, word := range strings.Fields(rest) {
		if numbers, ok := strings.CutPrefix(word, "--chown="); ok {
			if c.UID, c.GID, err = owner(numbers); err != nil {
				return Copy{}, err
			}
			continue
		}
		if !strings.HasPrefix(word, "--from=") {
			paths = append(paths, word)
		}
	}
	if len(paths) != 2 {
		return Copy{}, fmt.Errorf("%d paths", len(paths))
	}
	c.From, c.To = paths[0], paths[1]
	return c, nil
}

func owner(text string) (uid, gid int, err error) {
	first, second, _ := strings.Cut(text, ":")
	if uid, err = strconv.Atoi(first); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(second)
	return uid, gid, err
}
