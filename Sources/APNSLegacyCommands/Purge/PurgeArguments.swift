// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import ArgumentParser
public import TokenStore

extension Environment: ExpressibleByArgument {}

extension PurgeExport.Format: ExpressibleByArgument {}
