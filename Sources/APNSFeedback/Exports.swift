// SPDX-License-Identifier: Apache-2.0

// What a program that reads feedback names, so that one import is enough; see also Exports.swift of APNSProvider.
@_exported public import struct APNSSession.FeedbackEnding
@_exported public import struct APNSTransport.Endpoint
@_exported public import struct APNSTransport.Proxy
@_exported public import struct APNSWire.ConnectionFailure
@_exported public import struct APNSWire.DeviceToken
@_exported public import struct APNSWire.FeedbackTuple
@_exported public import enum APNSWire.PushEnvironment
@_exported public import struct APNSWire.Timestamp
@_exported public import struct APNSWire.TokenScope
@_exported public import struct OpenSSLTLS.TLSConfiguration
@_exported public import enum OpenSSLTLS.TLSError
@_exported public import struct OpenSSLTLS.TLSIdentity
@_exported public import struct OpenSSLTLS.TLSPassphrase
@_exported public import enum OpenSSLTLS.TLSTrust
@_exported public import enum OpenSSLTLS.TLSVersion
