// SPDX-License-Identifier: Apache-2.0

// The configuration is made of their types, and endings and environments are in outcomes.
@_exported public import APNSSession
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
