// SPDX-License-Identifier: Apache-2.0

// A client over HTTP/2 is one of its clients, so that one import is enough.
@_exported public import APNSProvider
