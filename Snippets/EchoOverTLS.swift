// SPDX-License-Identifier: Apache-2.0

// Runs a server that returns what it receives, and a client, both with certificates, in this process.

// snippet.connections
import APNSTestKit
import NIOCore
import NIOPosix
import OpenSSLTLS

typealias Connection = NIOAsyncChannel<ByteBuffer, ByteBuffer>

/// Listens on a free port; each connection begins with a handshake.
func listen(_ tls: TLSConfiguration) async throws -> NIOAsyncChannel<Connection, Never> {
    let context = try TLSContext(tls)
    return try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .bind(host: "127.0.0.1", port: 0) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(TLSHandler.server(context))
                return try Connection(wrappingChannelSynchronously: channel)
            }
        }
}

/// Connects to a server whose certificate is for `localhost`.
func connect(_ tls: TLSConfiguration, port: Int) async throws -> Connection {
    let context = try TLSContext(tls)
    return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connect(host: "127.0.0.1", port: port) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(TLSHandler.client(context, serverName: "localhost"))
                return try Connection(wrappingChannelSynchronously: channel)
            }
        }
}

/// The UID in the certificate of the other end; `nil` before the first byte was read, and if it has none.
func peer(_ connection: Connection) async throws -> String? {
    let channel = connection.channel
    return try await channel.eventLoop.submit {
        try channel.pipeline.syncOperations.handler(type: TLSHandler.self).peerCertificate?.subjectField("UID")
    }.get()
}
// snippet.end

// snippet.echo
/// Returns to one client what it sends.
func echo(_ connections: NIOAsyncChannel<Connection, Never>) async throws {
    try await connections.executeThenClose { connections in
        for try await connection in connections {
            try await connection.executeThenClose { input, output in
                for try await bytes in input {
                    if let name = try await peer(connection) { print("\(name) sent \(String(buffer: bytes))") }
                    try await output.write(bytes)
                }
            }
            // A server for many clients has a task for each connection, and no return.
            return
        }
    }
}

let authority = try CertificateAuthority()
let server = try await listen(authority.makeServerTLS())
let port = server.channel.localAddress?.port ?? 0
let identity = try authority.issueClient(topic: "com.example.app").identity
let serving = Task { try await echo(server) }

let client = try await connect(.client(identity: identity, trust: authority.trust), port: port)
try await client.executeThenClose { input, output in
    try await output.write(ByteBuffer(string: "hello"))
    for try await bytes in input {
        print("received \(String(buffer: bytes))")
        break
    }
}
try await serving.value
// snippet.end
