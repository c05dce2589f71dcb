// SPDX-License-Identifier: Apache-2.0

import PurgeList

extension CommandFailure {
    /// Finds the exit code for an error of a purge list or a token table.
    init(purging error: any Error) {
        switch error {
        case let error as TokenTableError: self.init(error)
        case let error as PurgeListError: self.init(error)
        default: self.init(error)
        }
    }

    private init(_ error: TokenTableError) {
        let status: ExitStatus =
            switch error {
            case .missingFile, .cannotOpen: .noInput
            case .notADatabase, .corrupt, .noTokens, .constraint: .dataError
            case .readOnly, .full: .ioError
            case .busy: .tryAgain
            case .missingTable, .notATable, .missingColumn, .generatedColumn, .hiddenRowNumber, .name, .severalTopics:
                .usage
            case .database: .software
            @unknown default: .software
            }
        self.init(status, "\(error)")
    }

    private init(_ error: PurgeListError) {
        let status: ExitStatus =
            switch error {
            case .missing, .cannotOpen: .noInput
            case .notAPurgeList, .newerVersion, .corrupt: .dataError
            case .readOnly, .full, .inputOutput: .ioError
            case .busy: .tryAgain
            default: .software
            }
        self.init(status, "\(error)")
    }
}
