// SPDX-License-Identifier: Apache-2.0

// What a program that sends names, so that one import is enough. The other types of these modules are for servers, or
// are reached through these; a program that names one of them imports its module. `Scripts/check` counts the symbols.
@_exported public import enum APNSJSON.JSONValue
@_exported public import struct APNSPayload.APS
@_exported public import struct APNSPayload.Payload
@_exported public import struct APNSPayload.Timestamp
@_exported public import struct APNSSession.DeliveryReport
@_exported public import struct APNSSession.BinaryLimits
@_exported public import enum APNSSession.ProviderSupply
@_exported public import struct APNSTransport.Endpoint
@_exported public import struct APNSTransport.ProviderIdentity
@_exported public import struct APNSTransport.Proxy
@_exported public import enum APNSWire.Command
@_exported public import struct APNSWire.ConnectionFailure
@_exported public import enum APNSWire.DeliveryOutcome
@_exported public import struct APNSWire.DeviceToken
@_exported public import enum APNSWire.PushEnvironment
@_exported public import struct APNSWire.PushExpiry
@_exported public import struct APNSWire.PushIdentifier
@_exported public import struct APNSWire.PushNotification
@_exported public import enum APNSWire.PushPriority
@_exported public import struct APNSWire.PushRejection
@_exported public import struct APNSWire.PushType
@_exported public import enum APNSWire.Rejection
@_exported public import enum APNSWire.RetryAdvice
@_exported public import struct OpenSSLTLS.TLSConfiguration
@_exported public import enum OpenSSLTLS.TLSError
@_exported public import struct OpenSSLTLS.TLSIdentity
@_exported public import struct OpenSSLTLS.TLSPassphrase
@_exported public import enum OpenSSLTLS.TLSTrust
@_exported public import enum OpenSSLTLS.TLSVersion
