// SPDX-License-Identifier: Apache-2.0

// This module extends the client of APNSProvider, so one import is enough.
@_exported public import APNSProvider
@_exported public import class OpenSSLTLS.ES256PrivateKey
