// SPDX-License-Identifier: Apache-2.0

import CSimulatorPage
import HTTPTypes
import HummingbirdCore
import NIOCore

/// The files of the page, and the description of the API.
enum EmbeddedFiles {
    static var routes: [ControlRoute] {
        var routes: [ControlRoute] = []
        var index: UInt = 0
        while let file = unsafe embedded_file(index) {
            let path = unsafe String(cString: file.pointee.path)
            let type = unsafe String(cString: file.pointee.content_type)
            let bytes = unsafe ByteBuffer(
                bytes: UnsafeRawBufferPointer(start: file.pointee.bytes, count: Int(file.pointee.byte_count))
            )
            routes.append(
                ControlRoute(.get, path) { request in
                    _ = try request.query([])
                    return Response(
                        status: .ok,
                        headers: [.contentType: type],
                        body: ResponseBody(byteBuffer: bytes)
                    )
                }
            )
            index += 1
        }
        return routes
    }
}
