// SPDX-License-Identifier: Apache-2.0

// Who is connected is one of its types.
@_exported public import APNSTransport
