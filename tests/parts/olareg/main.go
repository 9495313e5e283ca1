// Serves an empty registry from memory, on a free port of loopback, until it is ended.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := olareg.New(config.Config{Storage: config.ConfigStorage{StoreType: config.StoreMem}})
	fmt.Println("listening on", listener.Addr())
	return http.Serve(listener, registry)
}
