// SPDX-License-Identifier: Apache-2.0

// The interfaces for sending use these types, so one import is enough.
@_exported public import APNSPayload
@_exported public import APNSSession
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
