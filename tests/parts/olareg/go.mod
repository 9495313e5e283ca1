module mosb.dev/tests/olareg

go 1.26.0

require github.com/olareg/olareg v0.1.2

require github.com/opencontainers/go-digest v1.0.0 // indirect
