// SPDX-License-Identifier: Apache-2.0

// So that a test needs to import only this module.
@_exported public import APNSServer
@_exported public import APNSSimulator
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
@_exported public import APNSCertificates
