// SPDX-License-Identifier: Apache-2.0

import Foundation
import PackagePlugin

/// Generates a source file with the commit that the program is built from.
///
/// The manifest cannot do this, because the package manager caches its result until the manifest changes. The command
/// runs at the start of each build, and one small file is recompiled if the commit has changed.
@main struct CommitPlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) -> [Command] {
        let folder = context.pluginWorkDirectoryURL.appending(path: "Commit")
        let file = folder.appending(path: "Commit.swift")
        return [
            .prebuildCommand(
                displayName: "Commit",
                executable: URL(filePath: "/bin/sh"),
                arguments: ["-c", Self.script, "sh", context.package.directoryURL.path, file.path],
                environment: ProcessInfo.processInfo.environment.filter { Self.variables.contains($0.key) },
                outputFilesDirectory: folder
            )
        ]
    }

    /// The environment variables that the command inherits; git reads its settings from the home folder.
    private static let variables = ["APNS_LEGACY_COMMIT", "HOME", "PATH"]

    /// Writes the file `$2` for the repository in the folder `$1`.
    ///
    /// If `APNS_LEGACY_COMMIT` is set, it is the commit. Without git, or if the folder is not the root of a repository,
    /// the commit is unknown.
    private static let script = """
        commit=${APNS_LEGACY_COMMIT:-unknown}
        if [ -z "${APNS_LEGACY_COMMIT:-}" ] &&
            [ "$(git -C "$1" rev-parse --show-toplevel 2>/dev/null)" = "$(cd "$1" && pwd -P)" ]; then
            commit=$(git -C "$1" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
            git -C "$1" diff --quiet HEAD 2>/dev/null || commit="$commit (modified)"
        fi
        commit=$(printf %s "$commit" | tr -cd 'A-Za-z0-9 .()-')
        text="/// The commit that the program is built from.
        let commit = \\"$commit\\""
        mkdir -p "$(dirname "$2")"
        [ "$(cat "$2" 2>/dev/null)" = "$text" ] || printf '%s\\n' "$text" >"$2"
        """
}
