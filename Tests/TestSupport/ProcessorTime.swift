// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The processor time that this process has used.
///
/// Unlike the time that passes, it barely depends on what else runs on the machine.
package func processorTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}
