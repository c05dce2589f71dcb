// SPDX-License-Identifier: Apache-2.0

// Sending takes and gives their types, so that one import is enough.
@_exported public import APNSSession
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
