// SPDX-License-Identifier: Apache-2.0

// A test needs nothing but this module: a simulator, certificates for it, and the types that both are made of.
@_exported public import APNSServer
@_exported public import APNSSimulator
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
@_exported public import TestCertificates
