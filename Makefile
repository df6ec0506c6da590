# The commands of everyday work. What must hold before a change is taken is in .ci/run.

version ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: build dist test image-test arm64-test race lint bench whole soak older demo ci clean

build: ## one static binary, stripped
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(version)' -o build/gatewayd ./cmd/gatewayd

dist: ## the release, for each processor; the same commit gives the same bytes
	deploy/dist.sh

test:
	go test ./...

image-test: ## a real engine compiles the program in the image's build stage, and runs it: minutes
	go test ./e2e -run TestTheImageIsBuiltAndRunByARealEngine -v -count=1 -timeout 40m -args -image

arm64-test: ## the arm64 program on Debian's arm64 kernel, in an emulated machine: minutes
	deploy/arm64.sh

race: ## SQLite itself is left out: it would be thirteen times slower and is not ours
	go test -race -gcflags='github.com/ncruces/go-sqlite3-wasm/...=-race=false' ./registry ./reaper ./kanban/... ./gateway/... ./sessiondb ./config ./systemd

lint: build/bin/staticcheck
	@test -z "$$(build/bin/gofumpt -l . | tee /dev/stderr)"
	go vet ./...
	build/bin/staticcheck ./...

build/bin/staticcheck: internal/tools/go.mod internal/tools/go.sum
	go -C internal/tools build -o $(CURDIR)/build/bin/ tool

bench: ## minutes, on a quiet machine; the table of docs/performance.md
	go test ./e2e -run TestFigures -v -count=1 -timeout 60m -args -figures $(CURDIR)/build/bench.json

whole: ## each moment and each episode of which `make test` tries every few: some ten minutes
	go test ./internal/sqlite ./sessiondb ./kanban ./e2e -count=1 -timeout 60m -args -all

soak: whole ## and an hour each of damage and of use; prints the slopes of memory, descriptors, goroutines and -wal files
	go test ./e2e -run TestSoak -v -count=1 -timeout 180m -args -soak 60m

older: ## builds the last program of an earlier schema from the history, and goes back to it
	go test ./e2e -run TestAnOlderProgram -v -count=1 -timeout 30m -args -older

demo:
	go run ./cmd/gatewayd demo

ci:
	bash .ci/run

clean:
	rm -rf build
