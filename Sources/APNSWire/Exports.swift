// SPDX-License-Identifier: Apache-2.0

// Payloads contain times, too.
@_exported public import struct APNSPayload.Timestamp
