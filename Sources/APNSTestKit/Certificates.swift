// SPDX-License-Identifier: Apache-2.0

// A test needs certificates as soon as it has a peer.
@_exported public import TestCertificates
