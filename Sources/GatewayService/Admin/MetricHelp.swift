// SPDX-License-Identifier: Apache-2.0

/// The help text of each metric, by its name.
///
/// A test verifies that docs/monitoring.md lists the same names.
enum MetricHelp {
    /// All help texts.
    static let texts = Self.gateway.merging(Self.jobs) { text, _ in text }

    /// The metrics of a gateway.
    static let gateway: [String: String] = [
        // Connections of providers
        "apns_legacy_connections": "Open connections to the gateway port.",
        "apns_legacy_feedback_connections": "Open connections to the feedback port.",
        "apns_legacy_connections_opened_total": "Connections to the gateway port whose provider was admitted.",
        "apns_legacy_connections_closed_total": "Connections to the gateway port that were closed.",
        "apns_legacy_connections_refused_total": "Connections to either port that were refused, by cause.",
        "apns_legacy_connections_ended_total":
            "Connections that the gateway ended, by status of the error response, or none.",
        "apns_legacy_connections_closed_in_doubt_total":
            "Connections closed without an error response, because resends could not have been recognized.",
        "apns_legacy_received_bytes_total": "Bytes that providers sent to the gateway port.",

        // Notifications
        "apns_legacy_notifications_accepted_total": "Notifications accepted in order, after all before them.",
        "apns_legacy_notifications_discarded_total": "Notifications discarded, mostly after an error response.",
        "apns_legacy_notifications_settled_total": "Notifications with a final outcome, by cause.",
        "apns_legacy_notifications_in_flight": "Notifications in flight, including those that wait for a retry.",
        "apns_legacy_resends_expired_total": "Expected resends that did not arrive in time.",
        "apns_legacy_resends_possible_total":
            "Delivered notifications that equal an expected resend in all but the expiry.",

        // The service
        "apns_legacy_upstream_reached":
            "Whether the service answers; if it has answered before, a failure counts after 3 s. Initially absent.",
        "apns_legacy_upstream_unreachable_since_timestamp_seconds":
            "When the attempts to reach the service began to fail; 0 while it is reachable.",
        "apns_legacy_upstream_request_duration_seconds": "Time from a request to its response.",
        "apns_legacy_upstream_retries_total": "Requests that were or will be retried.",

        // The HTTP/2 client of all providers
        "apns_legacy_http2_requests_total": "Completed requests, by outcome.",
        "apns_legacy_http2_request_duration_seconds": "Time from the submission of a request to its outcome.",
        "apns_legacy_http2_requests_repeated_total": "Requests that the client resent, for example after GOAWAY.",
        "apns_legacy_http2_queue": "Requests that wait for a connection or a retry.",
        "apns_legacy_http2_connections_total": "Attempted connections to the service.",
        "apns_legacy_http2_connections_open": "Open connections to the service, after the handshake.",
        "apns_legacy_http2_connection_failures_total": "Connections to the service that failed before a response.",

        // Dead tokens
        "apns_legacy_feedback_backlog": "Dead tokens that their provider has not read yet.",
        "apns_legacy_feedback_writable": "Whether the feedback database can be written.",
        "apns_legacy_feedback_store_failures_total": "Failed attempts to write dead tokens to the database.",
        "apns_legacy_feedback_store_dropped_total": "Dead tokens dropped because the feedback store was full.",
        "apns_legacy_resend_store_failures_total": "Failed attempts to write expected resends to the database.",

        // Stored notifications
        "apns_legacy_spool_notifications": "Notifications in the spool of a provider.",
        "apns_legacy_spool_bytes": "Bytes in the spool of a provider, which limits.spoolSize limits.",
        "apns_legacy_spool_oldest_age_seconds": "How long ago the oldest notification in a spool arrived.",
        "apns_legacy_spool_held":
            "Whether notifications are held because the service refuses the credentials or a topic.",
        "apns_legacy_spool_writable": "Whether the spool can be used; if not, the provider is not read.",
        "apns_legacy_spool_repeated_total": "Requests for spooled notifications that the service may have already.",

        // The database that gateways share
        "apns_legacy_store_reached": "Whether the shared database answers; 1 without one.",
        "apns_legacy_store_failures_total": "Failed transactions in the shared database.",
        "apns_legacy_connections_unchecked_total":
            "Connections admitted while the shared database did not answer: their resends may be delivered twice.",

        // Outcomes for other programs
        "apns_legacy_outcomes_recorded_total": "Outcomes written to the files for other programs.",
        "apns_legacy_outcomes_dropped_total": "Outcomes missing in the files or not sent to the webhook, by cause.",
        "apns_legacy_outcomes_store_failures_total": "Failed attempts to write outcomes.",
        "apns_legacy_outcomes_stored_bytes": "Size of the files with outcomes.",
        "apns_legacy_outcomes_writable": "Whether the last attempt to write outcomes succeeded.",
        "apns_legacy_outcomes_webhook_requests_total": "Requests to the webhook, by result.",
        "apns_legacy_outcomes_webhook_waiting": "Outcomes that the webhook has not accepted yet.",
        "apns_legacy_outcomes_webhook_waiting_since_timestamp_seconds":
            "When the oldest outcome was known that the webhook has not accepted; 0 if there is none.",

        // Certificates
        "apns_legacy_certificate_expiry_timestamp_seconds":
            "When a certificate expires: the server's, those used for the service, and those of providers.",

        "apns_legacy_configuration_current":
            "Whether the last configuration is in effect, by provider; of no provider: the server's certificate.",

        // The program
        "apns_legacy_build_info": "The versions of the program and its libraries, as labels; always 1.",
        "process_cpu_seconds_total": "Processor time used, in user and system mode.",
        "process_max_fds": "Maximum number of open files of the process.",
        "process_open_fds": "Number of open files of the process.",
        "process_resident_memory_bytes": "Resident memory.",
        "process_start_time_seconds": "Start time of the process in seconds since 1970.",
        "process_virtual_memory_bytes": "Virtual memory.",
    ]
    /// The metrics that a run of another command writes to a file.
    static let jobs: [String: String] = [
        "apns_legacy_job_start_timestamp_seconds": "When the last run started.",
        "apns_legacy_job_end_timestamp_seconds": "When the last run ended.",
        "apns_legacy_job_duration_seconds": "How long the last run took.",
        "apns_legacy_job_exit_code": "The exit code of the last run.",
        "apns_legacy_job_last_success_timestamp_seconds": "When the last successful run ended; 0 if there was none.",
        "apns_legacy_send_notifications": "Notifications of the last batch, by outcome.",
        "apns_legacy_send_rejections": "Rejected notifications of the last batch, by status.",
        "apns_legacy_send_possible_duplicates": "Notifications of the last batch that may have arrived twice.",
        "apns_legacy_feedback_read_tokens": "Dead tokens that the last run read.",
        "apns_legacy_feedback_new_tokens": "Dead tokens of the last run that the purge list did not have.",
        "apns_legacy_purge_due_rows": "Rows that were due in the last run.",
        "apns_legacy_purge_pruned_rows": "Rows that the last run pruned.",
        "apns_legacy_purge_limit_exceeded": "Whether the last run changed nothing because too many rows were due.",
        "apns_legacy_queue_ready_batches": "Batches that are ready and not done.",
        "apns_legacy_queue_left_notifications": "Notifications of ready batches without an outcome.",
        "apns_legacy_queue_in_doubt_notifications": "Notifications that may be on their way, or may have arrived.",
        "apns_legacy_queue_workers": "Workers, including those whose lease has ended.",
        "apns_legacy_queue_expired_leases": "Workers whose lease has ended.",
        "apns_legacy_queue_notifications_per_second": "The rates of all workers with a lease, together.",
        "apns_legacy_queue_dead_tuples": "Replaced rows of the queue that vacuum has not removed.",
        "apns_legacy_queue_oldest_snapshot_age_transactions":
            "How many transactions ago the oldest snapshot of a session was taken.",
    ]
}
