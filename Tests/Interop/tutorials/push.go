// SPDX-License-Identifier: Apache-2.0
// Sends notifications and reads feedback the way programs for Go 1.0 did, with nothing but its standard library.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"time"
)

var tokens = []string{
	"71b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
	"72b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
}

func connect(address string) *tls.Conn {
	certificate, err := tls.LoadX509KeyPair("provider.pem", "provider.key.pem")
	if err != nil {
		log.Fatal(err)
	}
	connection, err := tls.Dial("tcp", address, &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

func main() {
	gateway := connect("gateway.push.apple.com:2195")
	for index, text := range tokens {
		token, _ := hex.DecodeString(text)
		aps := map[string]interface{}{"alert": "Hello from Go", "badge": index}
		payload, _ := json.Marshal(map[string]interface{}{"aps": aps})
		frame := new(bytes.Buffer)
		if index == 0 {
			binary.Write(frame, binary.BigEndian, uint8(0))
		} else {
			binary.Write(frame, binary.BigEndian, uint8(1))
			binary.Write(frame, binary.BigEndian, uint32(index))
			binary.Write(frame, binary.BigEndian, uint32(time.Now().Unix()+3600))
		}
		binary.Write(frame, binary.BigEndian, uint16(len(token)))
		frame.Write(token)
		binary.Write(frame, binary.BigEndian, uint16(len(payload)))
		frame.Write(payload)
		if _, err := gateway.Write(frame.Bytes()); err != nil {
			log.Fatal(err)
		}
		fmt.Println("wrote " + hex.EncodeToString(frame.Bytes()))
	}
	gateway.Close()

	feedback := connect("feedback.push.apple.com:2196")
	tuple := make([]byte, 38)
	for {
		if _, err := io.ReadFull(feedback, tuple); err != nil {
			break
		}
		fmt.Println("dead " + hex.EncodeToString(tuple[6:]))
	}
	feedback.Close()
}
