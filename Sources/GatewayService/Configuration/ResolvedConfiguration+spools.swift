// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSWire
import FileSupport
import Glibc
import TokenStore

extension ResolvedConfiguration {
    /// Finds why the folder of a spool could not be used; it is created if missing.
    static func spoolFindings(_ provider: GatewayFile.Provider) -> [ConfigurationFinding] {
        guard let folder = provider.spool else { return [] }
        func finding(_ sentence: String) -> [ConfigurationFinding] {
            [ConfigurationFinding(key: "provider \(provider.name): spool", value: folder, sentence: sentence)]
        }
        guard let identity = FileIdentity(path: folder) else {
            let parent = Folder.of(folder)
            guard unsafe access(parent, W_OK | X_OK) == 0 else {
                let reason = unsafe String(cString: strerror(errno))
                return finding("the folder cannot be created in \(parent) (\(reason)). Create it, or correct the path")
            }
            return []
        }
        guard identity.isFolder else { return finding("this is not a folder. Correct the path") }
        guard unsafe access(folder, R_OK | W_OK | X_OK) == 0 else {
            return finding("this user cannot read and write the folder. Change its owner, or its permissions")
        }
        return []
    }

    /// Reads a whole spool, also while a gateway uses it.
    static func spoolDamageFindings(_ provider: GatewayFile.Provider) -> [ConfigurationFinding] {
        guard let folder = provider.spool else { return [] }
        var sentence: String?
        do throws(NotificationSpoolError) {
            let summary = try SQLiteNotificationSpool.check(folder: folder)
            if let count = summary?.damagedCount, count > 0 {
                sentence =
                    "\(count.counted("notification")) of \(summary?.count ?? 0) cannot be read, and will not be "
                    + "delivered. Check the disk"
            }
        } catch {
            sentence = error.detail
        }
        return sentence.map {
            [ConfigurationFinding(key: "provider \(provider.name): spool", value: folder, sentence: $0)]
        } ?? []
    }

    /// Finds spools that the configuration does not name any more, and that are not empty.
    func abandonedSpoolFindings() -> [ConfigurationFinding] {
        let folders = Set(self.file.providers.compactMap(\.spool))
        let refused = Set(self.closed.map(\.name))
        // A database that cannot be read has a finding of its own.
        let known = (try? StoredSpool.read(fromDatabase: self.file.feedback)) ?? []
        return known.compactMap { spool in
            guard !folders.contains(Folder.resolved(spool.folder)), !refused.contains(spool.provider),
                let count = try? SQLiteNotificationSpool.count(folder: spool.folder), count > 0
            else { return nil }
            return ConfigurationFinding(
                key: "providers",
                value: spool.provider,
                sentence:
                    "the spool \(spool.folder) of this provider has \(count.counted("notification")), and is not in "
                    + "the configuration any more, so these are not delivered. Add it again until it is empty, or "
                    + "remove the folder"
            )
        }
    }
}
