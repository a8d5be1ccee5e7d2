// Written by `npm run generate` from /openapi.json.

export interface paths {
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the daemon is there */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metrics for Prometheus */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What every tenant uses */
        get: operations["list_tenants"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the daemon takes new work */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/host": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This host and what it offers */
        get: operations["host"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run code or a command in a session of its own */
        post: operations["run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List sessions */
        get: operations["list_sessions"];
        put?: never;
        /** Make a session */
        post: operations["create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a session */
        get: operations["show_session"];
        put?: never;
        post?: never;
        /** End a session */
        delete: operations["delete_session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run a command in a session */
        post: operations["command"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What could follow at a place in code */
        post: operations["complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/execute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run code in a session */
        post: operations["execute"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show an execution, or follow its events */
        get: operations["show_execution"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List files */
        get: operations["list_files"];
        /** Unpack a tar archive into the workdir */
        put: operations["upload_all"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/files/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download a file, or one range of it */
        get: operations["download"];
        /** Upload a file, or unpack a tar archive */
        put: operations["upload"];
        post?: never;
        /** Remove a file, or a directory with all that is in it */
        delete: operations["delete_file"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/inspect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What stands at a place in code */
        post: operations["inspect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/interrupt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Interrupt what is running */
        post: operations["interrupt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/is_complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Whether code can be executed or needs another line */
        post: operations["is_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/keepalive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep a session from being reaped */
        post: operations["keepalive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a session a fresh kernel */
        post: operations["reset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Capacity: {
            /** @description CPUs that the daemon may use. */
            cpus: number;
            max_sessions: number | "unlimited";
            memory?: components["schemas"]["MemoryCapacity"];
            /** @description Executions that may wait in each session. */
            queue_depth: number;
            /** @description The tenant's sessions now. */
            sessions: number;
        };
        /** @description A file that an execution made or changed. */
        ChangedFile: {
            /** @description Path relative to the workdir. */
            name: string;
            /** Format: int64 */
            size_bytes: number;
        };
        /** @description A process to run in a session's sandbox: `argv` or `shell`. */
        CommandRequest: {
            /** @description The program, looked for on PATH unless it has a slash, and its arguments. */
            argv?: string[] | null;
            /** @description Interrupt it when the client goes away. */
            cancel_on_disconnect?: boolean;
            /** @description Its working directory, in the workdir; the workdir itself if not given. */
            cwd?: string | null;
            /** @description Files to put into the workdir first. */
            files?: components["schemas"]["FileSpec"][];
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /** @description A command line for `/bin/sh -c`. */
            shell?: string | null;
            /** @description Standard input as text; empty if neither is given. */
            stdin?: string | null;
            /** @description Standard input in base64. */
            stdin_base64?: string | null;
            /**
             * Format: int64
             * @description Milliseconds it may run; the configured time if not given.
             */
            timeout_ms?: number | null;
        };
        /** @description What could follow at a place in code. */
        CompleteReply: {
            /**
             * Format: int32
             * @description Where it ends.
             */
            end: number;
            /** @description What could stand there. */
            matches: components["schemas"]["Match"][];
            /**
             * Format: int32
             * @description Where what they replace begins, in characters.
             */
            start: number;
        };
        /**
         * @description Whether code can be executed.
         * @enum {string}
         */
        Completeness: "complete" | "incomplete" | "invalid";
        Display: {
            /** @description The `display_id`, if the code gave one. */
            id?: string | null;
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
        };
        /** @description `display`: a display, figure or frame. */
        DisplayEvent: {
            /** @description The `display_id`, if the code gave one. */
            id?: string | null;
            /** @enum {string} */
            kind: "display" | "update" | "clear" | "image" | "video_frame";
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
        };
        /** @description `done`: the execution is over. The outcome, without the content of earlier events. */
        DoneEvent: {
            /** @enum {string|null} */
            cause?: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown" | null;
            /** @description The evidence, in words; may be empty. */
            detail: string;
            /**
             * Format: double
             * @description Time from the code's start to its end, in milliseconds.
             */
            duration_ms: number;
            /** @description Unique within the session. */
            execution_id: string;
            /**
             * Format: int32
             * @description Exit code of a command; null for code, and for a command that was killed.
             */
            exit_code?: number | null;
            /** @description The requested files. */
            files: components["schemas"]["OutputFile"][];
            /** @description Files that the execution created or changed. */
            files_changed: components["schemas"]["ChangedFile"][];
            /** @description Whether there are more changed files. */
            files_changed_more: boolean;
            kernel?: components["schemas"]["KernelInfo"] | null;
            /** @description Whether this request created the session. */
            session_created: boolean;
            session_id: string;
            /** @enum {string} */
            state: "preserved" | "lost";
            /** @enum {string} */
            status: "ok" | "error" | "timed_out" | "interrupted" | "killed" | "rejected";
            /** @description Whether some of stderr was not sent. */
            stderr_truncated: boolean;
            /** @description Whether some of stdout was not sent. */
            stdout_truncated: boolean;
            usage: components["schemas"]["ExecutionUsage"];
        };
        EncodedImage: {
            /** @description Base64. */
            data: string;
            /** @description Such as `image/png`. */
            mime_type: string;
        };
        /** @description An interpreter that sessions can use. */
        EnvironmentInfo: {
            /** @description Path on the host. */
            interpreter: string;
            name: string;
            pool?: components["schemas"]["PoolInfo"] | null;
            /** @description Such as `3.11.2`. */
            python_version: string;
            template: components["schemas"]["TemplateInfo"];
        };
        /** @description Code to run in a session. */
        ExecuteRequest: {
            /** @description Interrupt it when the client goes away. */
            cancel_on_disconnect?: boolean;
            code: string;
            /**
             * @description The code's file name in tracebacks: a path in the workdir. If there is a file of that name,
             *     `__file__` is its path, and modules beside it can be imported.
             */
            filename?: string | null;
            /** @description Files to put into the workdir first. */
            files?: components["schemas"]["FileSpec"][];
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /**
             * Format: int64
             * @description Milliseconds it may run; the configured time if not given.
             */
            timeout_ms?: number | null;
        };
        ExecutionInfo: {
            outcome?: components["schemas"]["Outcome"] | null;
            state: components["schemas"]["Progress"];
        };
        ExecutionUsage: {
            /**
             * Format: double
             * @description CPU time of all the session's processes during it, in milliseconds. Children that were
             *     never waited for are in it with the cgroup layer, if they used more than 10 ms.
             */
            cpu_ms: number;
            /**
             * Format: int64
             * @description Bytes read from disks; null without an io controller.
             */
            io_read_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes written to disks; null without an io controller.
             */
            io_write_bytes?: number | null;
            /**
             * Format: int64
             * @description Highest memory, in bytes. With a memory controller: charged to the whole session while
             *     the execution ran (Linux 6.12; before that only if it was the session's highest so far).
             *     Else the kernel process's largest resident set since it was started.
             */
            memory_peak_bytes: number;
        };
        /**
         * @description How the content of a file is encoded.
         * @enum {string}
         */
        FileFormat: "text" | "base64";
        /** @description A file, directory or link. */
        FileInfo: {
            /** @enum {string} */
            kind: "file" | "directory" | "link" | "other";
            /** @description Guessed from the name; null unless it is a file. */
            mime_type?: string | null;
            /**
             * Format: date-time
             * @description Time of the last modification, which tenant code can set.
             */
            modified_at: string;
            /** @description Path relative to the workdir. */
            path: string;
            /** Format: int64 */
            size_bytes: number;
        };
        /** @description Part of a list of files. */
        FileList: {
            /** @description In byte order of the paths. */
            entries: components["schemas"]["FileInfo"][];
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
        };
        /** @description A file to put into the workdir before the code runs: `text`, or `data` in base64. */
        FileSpec: {
            /** @description Content in base64. */
            data?: string | null;
            /** @description Path relative to the workdir. */
            name: string;
            /** @description Content as text. */
            text?: string | null;
        };
        /** @description The result of an upload. */
        FilesWritten: {
            /**
             * Format: int64
             * @description Number of files.
             */
            files: number;
            /** @description The file, or the directory into which an archive was unpacked. */
            path: string;
            /**
             * Format: int64
             * @description Sum of their sizes.
             */
            size_bytes: number;
        };
        /** @description The daemon is there. */
        Health: {
            /** @description `ok` */
            status: string;
        };
        /** @description What this host offers. */
        HostInfo: {
            capacity: components["schemas"]["Capacity"];
            environments: components["schemas"]["EnvironmentInfo"][];
            /** @description Release of the Linux kernel. */
            kernel: string;
            layers: {
                detail: string;
                fix: string;
                layer: string;
                /** @enum {string} */
                status: "enforced" | "partial" | "unavailable" | "off";
            }[];
            /** @description `auto`, `on` or `off` */
            mode: string;
            version: string;
        };
        /** @description What stands at a place in code. */
        InspectReply: {
            /** @description Its documentation. */
            docstring?: string | null;
            /** @description Whether it is known. */
            found: boolean;
            /** @description What it is called there. */
            name?: string | null;
            /** @description `repr()` of it, perhaps shortened. */
            repr?: string | null;
            /** @description How it is called, if it can be. */
            signature?: string | null;
            /** @description Its source code, where it has some. */
            source?: string | null;
            /** @description Its class's name. */
            type?: string | null;
        };
        /** @description The result of an interrupt. */
        InterruptReply: {
            detail: string;
            /** @description Null if nothing was running. */
            execution_id?: string | null;
            /** @description Whether the execution has ended. */
            interrupted: boolean;
            session_id: string;
        };
        /** @description Whether code can be executed, as the kernel judges it. */
        IsCompleteReply: {
            /** @description The indentation of the next line of incomplete code; otherwise empty. */
            indent?: string;
            status: components["schemas"]["Completeness"];
        };
        /** @description Code that may need another line. */
        IsCompleteRequest: {
            /** @description The code. */
            code: string;
        };
        /** @description The result of a keepalive. */
        KeepaliveReply: {
            /**
             * Format: date-time
             * @description When the session is deleted unless it is used before.
             */
            expires_at: string;
            session_id: string;
        };
        KernelInfo: {
            /** @description Whether no code had run in it before. */
            fresh: boolean;
            /**
             * Format: int64
             * @description Counts the session's kernels from 1. If it differs between two executions, variables and
             *     modules are lost.
             */
            generation: number;
            previous_end?: components["schemas"]["PreviousEnd"] | null;
        };
        /** @description The limits of a session: each a positive integer or `"unlimited"`. */
        LimitsInfo: {
            cpu_cores: number | "unlimited";
            max_cpu_secs: number | "unlimited";
            max_disk_mb: number | "unlimited";
            max_file_size_mb: number | "unlimited";
            max_inodes: number | "unlimited";
            max_memory_mb: number | "unlimited";
            max_open_fds: number | "unlimited";
            max_output_bytes: number | "unlimited";
            max_procs: number | "unlimited";
            max_result_bytes: number | "unlimited";
        };
        /** @description Limits to tighten. Each is a positive integer or `"unlimited"`. */
        LimitsSpec: {
            cpu_cores?: number | "unlimited";
            max_cpu_secs?: number | "unlimited";
            max_disk_mb?: number | "unlimited";
            max_file_size_mb?: number | "unlimited";
            max_inodes?: number | "unlimited";
            max_memory_mb?: number | "unlimited";
            max_open_fds?: number | "unlimited";
            max_output_bytes?: number | "unlimited";
            max_procs?: number | "unlimited";
            max_result_bytes?: number | "unlimited";
        };
        /** @description What could stand somewhere. */
        Match: {
            /** @description The text. */
            text: string;
            /** @description What it is, such as `function` or `module`; empty if that is not known. */
            type: string;
        };
        /** @description Memory for more sessions. */
        MemoryCapacity: {
            /**
             * Format: int64
             * @description What sessions may still take; null if the host does not say.
             */
            available_bytes?: number | null;
            /**
             * Format: int64
             * @description What one more session of the default environment is expected to take.
             */
            session_estimate_bytes: number;
        };
        /** @description The outcome of an execution. */
        Outcome: {
            /** @enum {string|null} */
            cause?: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown" | null;
            /** @description The evidence, in words; may be empty. */
            detail: string;
            /** @description Objects passed to `display()`, after updates and clearing. */
            displays: components["schemas"]["Display"][];
            /**
             * Format: double
             * @description Time from the code's start to its end, in milliseconds.
             */
            duration_ms: number;
            exception?: {
                message: string;
                traceback: string;
                type: string;
            } | null;
            /** @description Unique within the session. */
            execution_id: string;
            /**
             * Format: int32
             * @description Exit code of a command; null for code, and for a command that was killed.
             */
            exit_code?: number | null;
            /** @description The requested files. */
            files: components["schemas"]["OutputFile"][];
            /** @description Files that the execution created or changed. */
            files_changed: components["schemas"]["ChangedFile"][];
            /** @description Whether there are more changed files. */
            files_changed_more: boolean;
            /** @description Images, in the order in which they were shown. */
            images: components["schemas"]["EncodedImage"][];
            kernel?: components["schemas"]["KernelInfo"] | null;
            result?: components["schemas"]["ValueInfo"] | null;
            /** @description Whether this request created the session. */
            session_created: boolean;
            session_id: string;
            /** @enum {string} */
            state: "preserved" | "lost";
            /** @enum {string} */
            status: "ok" | "error" | "timed_out" | "interrupted" | "killed" | "rejected";
            stderr: string;
            /** @description Whether there was more than the limit. */
            stderr_truncated: boolean;
            stdout: string;
            /** @description Whether there was more than the limit. */
            stdout_truncated: boolean;
            usage: components["schemas"]["ExecutionUsage"];
            /** @description Frames of animations. */
            video_frames: components["schemas"]["EncodedImage"][];
        };
        /** @description `stdout` and `stderr`: printed text. */
        OutputEvent: {
            /** @description The text; bytes that are not UTF-8 are replaced. */
            text: string;
        };
        /** @description A requested file. */
        OutputFile: {
            /** @description Content in base64. */
            data?: string | null;
            /** @description Why there is no content. */
            error?: string | null;
            format?: components["schemas"]["FileFormat"] | null;
            /** @description Guessed from the name, or else from the content. */
            mime_type: string;
            /** @description Path relative to the workdir. */
            name: string;
            /** Format: int64 */
            size_bytes: number;
            /** @description Content as text. */
            text?: string | null;
        };
        /** @description A file to return after the code has run. */
        OutputSpec: {
            format?: components["schemas"]["FileFormat"] | null;
            /** @description Path relative to the workdir. */
            name: string;
        };
        /** @description Sessions kept ready for a tenant in an environment. */
        PoolInfo: {
            /** @description How many there are after that. */
            high: number;
            /** @description If fewer than this are left, more are started. */
            low: number;
            /** @description Ready now. */
            ready: number;
        };
        /** @description Why a kernel ended. */
        PreviousEnd: {
            /** @enum {string} */
            cause: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown";
            /** @description The evidence, in words. */
            detail: string;
        };
        /** @description Code, and a place in it. */
        ProbeRequest: {
            /** @description The code. */
            code: string;
            /**
             * Format: int32
             * @description The place, in characters from its beginning; its end if not given.
             */
            cursor?: number | null;
        };
        /** @description What went wrong. `code` is stable; `detail` is for people. */
        Problem: {
            /** @description Such as `unknown_session`. */
            code: string;
            /** @description What went wrong this time. */
            detail: string;
            /** @description The field it is about, as `limits.max_procs`. */
            field?: string | null;
            /** @description What an operator can do about it. */
            fix?: string | null;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description The HTTP status in words. */
            title: string;
            /** @description `urn:vivarium:problem:` and the code. */
            type: string;
        };
        /**
         * @description The progress of an execution.
         * @enum {string}
         */
        Progress: "queued" | "running" | "done";
        /** @description The result of a reset. */
        ResetReply: {
            /** @description The execution that the reset ended; null if nothing was running. */
            ended_execution_id?: string | null;
            session_id: string;
        };
        /**
         * @description Code or a command to run in a session of its own, which ends with it: `code`, `argv` or
         *     `shell`.
         */
        RunRequest: {
            /** @description The program, looked for on PATH unless it has a slash, and its arguments. */
            argv?: string[] | null;
            /** @description End it, and its session, when the client goes away. */
            cancel_on_disconnect?: boolean;
            code?: string | null;
            /** @description A command's working directory, in the workdir; the workdir itself if not given. */
            cwd?: string | null;
            /** @description Variables for the session. */
            env?: {
                [key: string]: string;
            };
            /** @description Name of a configured environment; `default` if not given. */
            environment?: string | null;
            /** @description The code's file name, as for `execute`. */
            filename?: string | null;
            /** @description Files to put into the workdir first. */
            files?: components["schemas"]["FileSpec"][];
            limits?: components["schemas"]["LimitsSpec"] | null;
            /** @enum {string} */
            network?: "none" | "loopback" | "full";
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /** @description A command line for `/bin/sh -c`. */
            shell?: string | null;
            /** @description Standard input of a command as text; empty if neither is given. */
            stdin?: string | null;
            /** @description Standard input in base64. */
            stdin_base64?: string | null;
            /**
             * Format: int64
             * @description Milliseconds it may run; the configured time if not given.
             */
            timeout_ms?: number | null;
        };
        SessionInfo: {
            /** Format: date-time */
            created_at: string;
            environment: string;
            /**
             * Format: date-time
             * @description When the session is deleted unless it is used before.
             */
            expires_at: string;
            id: string;
            /** @enum {string|null} */
            kernel_origin?: "executed" | "forked" | null;
            /**
             * Format: date-time
             * @description Time of the last execution or keepalive.
             */
            last_used_at: string;
            limits: components["schemas"]["LimitsInfo"];
            /** @description As the client gave it. */
            metadata: {
                [key: string]: string;
            };
            /** @enum {string} */
            network: "none" | "loopback" | "full";
            protection: {
                detail: string;
                fix: string;
                layer: string;
                /** @enum {string} */
                status: "enforced" | "partial" | "unavailable" | "off";
            }[];
            state: components["schemas"]["SessionState"];
            tenant: string;
            usage: components["schemas"]["SessionUsage"];
        };
        /** @description Part of a list of sessions, ordered by id. */
        SessionPage: {
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
            sessions: components["schemas"]["SessionInfo"][];
        };
        /** @description A session to create. */
        SessionSpec: {
            /** @description Variables for the kernel. */
            env?: {
                [key: string]: string;
            };
            /** @description Name of a configured environment; `default` if not given. */
            environment?: string | null;
            /** @description 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given. */
            id?: string | null;
            /**
             * Format: int64
             * @description Milliseconds without an execution or keepalive after which the session is reaped. No
             *     longer than the configured time.
             */
            idle_timeout_ms?: number | null;
            limits?: components["schemas"]["LimitsSpec"] | null;
            /** @description Strings that the session's description shows, for the client's own use. */
            metadata?: {
                [key: string]: string;
            };
            /** @enum {string} */
            network?: "none" | "loopback" | "full";
        };
        /** @enum {string} */
        SessionState: "starting" | "idle" | "running" | "interrupting" | "replacing" | "closed";
        SessionUsage: {
            /**
             * Format: int64
             * @description Proportional set size of the agent; only when one session is requested.
             */
            agent_pss_bytes?: number | null;
            /**
             * Format: double
             * @description CPU time, in milliseconds.
             */
            cpu_ms: number;
            /**
             * Format: int64
             * @description Workdir and temporary files; only when one session is requested.
             */
            disk_bytes?: number | null;
            /**
             * Format: int64
             * @description Executions that have ended.
             */
            executions: number;
            /**
             * Format: int64
             * @description Bytes read from disks; null without an io controller.
             */
            io_read_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes written to disks; null without an io controller.
             */
            io_write_bytes?: number | null;
            /**
             * Format: int64
             * @description Proportional set size of the kernel; only when one session is requested.
             */
            kernel_pss_bytes?: number | null;
            /**
             * Format: int64
             * @description Memory charged to the session now; null without a memory controller.
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description Highest memory ever charged to the session, in bytes; without a memory controller, the
             *     highest of any execution.
             */
            memory_peak_bytes: number;
            /**
             * Format: int32
             * @description Processes without the agent; only when one session is requested.
             */
            processes?: number | null;
            /**
             * Format: int64
             * @description Most processes and threads of tenant code at one time; null without a pids controller,
             *     and before Linux 6.1.
             */
            processes_peak?: number | null;
            /**
             * Format: int64
             * @description Executions waiting.
             */
            queued: number;
        };
        /** @description `started`: the execution begins. */
        StartedEvent: {
            /** @description Unique within the session. */
            execution_id: string;
            session_id: string;
        };
        /** @description A template: a warmed process that kernels are forked from. */
        TemplateInfo: {
            /** @description Why it is unavailable, else null. */
            reason?: string | null;
            /** @description `off`, `building`, `ready`, or `unavailable`, in which case kernels are executed. */
            state: string;
        };
        /** @description Sums over all sessions of a tenant. A figure is null without the cgroup controller it needs. */
        TenantInfo: {
            /**
             * Format: double
             * @description CPU time so far, ended sessions included, in seconds.
             */
            cpu_seconds?: number | null;
            /**
             * Format: int64
             * @description Memory charged to the tenant now.
             */
            memory_bytes?: number | null;
            name: string;
            /**
             * Format: int64
             * @description Processes and threads now.
             */
            processes?: number | null;
            /**
             * Format: int64
             * @description Executions that are waiting now.
             */
            queued: number;
            /**
             * Format: int64
             * @description Sessions that are running code now.
             */
            running: number;
            /**
             * Format: int64
             * @description The tenant's sessions now.
             */
            sessions: number;
        };
        /** @description Every tenant that is configured or ever had a session here, ordered by name. */
        TenantList: {
            tenants: components["schemas"]["TenantInfo"][];
        };
        ValueInfo: {
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
            repr: string;
            /** @description Name of the class. */
            type: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain; version=0.0.4": string;
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_tenants: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantList"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description The daemon does not accept work now */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    host: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HostInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description 1 to 255 visible ASCII characters. Further requests with the same key and the same method,
                 *     path and body are not carried out: they get what came, or comes, of the first.
                 */
                "Idempotency-Key"?: string | null;
                /** @description Of a request that is sent again: the last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunRequest"];
            };
        };
        responses: {
            /** @description What became of it, or its events as they happen */
            200: {
                headers: {
                    /** @description An earlier request with the same Idempotency-Key was carried out. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"];
                    "text/event-stream": string;
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_sessions: {
        parameters: {
            query?: {
                /** @description At most this many, 1 to 1000. */
                limit?: number;
                /** @description The `next` of the previous part. */
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description 1 to 255 visible ASCII characters. Further requests with the same key and the same body are
                 *     not carried out: they get the session of the first.
                 */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SessionSpec"] | null;
            };
        };
        responses: {
            /** @description The session */
            201: {
                headers: {
                    /** @description An earlier request with the same Idempotency-Key was carried out. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    command: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description 1 to 255 visible ASCII characters. Further requests with the same key and the same method,
                 *     path and body are not carried out: they get what came, or comes, of the first.
                 */
                "Idempotency-Key"?: string | null;
                /** @description Of a request that is sent again: the last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CommandRequest"];
            };
        };
        responses: {
            /** @description What became of it, or its events as they happen */
            200: {
                headers: {
                    /** @description An earlier request with the same Idempotency-Key was carried out. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"];
                    "text/event-stream": string;
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    complete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProbeRequest"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CompleteReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    execute: {
        parameters: {
            query?: {
                /** @description Make the session if there is none of this id. */
                create?: boolean;
            };
            header?: {
                /**
                 * @description 1 to 255 visible ASCII characters. Further requests with the same key and the same method,
                 *     path and body are not carried out: they get what came, or comes, of the first.
                 */
                "Idempotency-Key"?: string | null;
                /** @description Of a request that is sent again: the last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExecuteRequest"];
            };
        };
        responses: {
            /** @description What became of it, or its events as they happen */
            200: {
                headers: {
                    /** @description An earlier request with the same Idempotency-Key was carried out. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"];
                    "text/event-stream": string;
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_execution: {
        parameters: {
            query?: never;
            header?: {
                /** @description The last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How far it has come, or its events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecutionInfo"];
                    "text/event-stream": string;
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_files: {
        parameters: {
            query?: {
                /** @description A directory; the workdir if not given. */
                path?: string;
                /** @description Whether to include the content of directories below it. */
                recursive?: boolean;
                /** @description The `next` of the previous part. */
                after?: string;
                /** @description At most this many, 1 to 1000. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileList"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    upload_all: {
        parameters: {
            query?: {
                /** @description Whether it is a tar archive to be unpacked into the directory at the path. */
                unpack?: boolean;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-tar": number[];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilesWritten"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download: {
        parameters: {
            query?: never;
            header?: {
                /** @description One range of bytes */
                Range?: string | null;
                /** @description The `ETag` of an earlier answer: without it the whole file is sent */
                "If-Range"?: string | null;
                /** @description The `ETag` of an earlier answer: 304 if the file is the same */
                "If-None-Match"?: string | null;
            };
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Relative to the workdir */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The content */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
            /** @description The range */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
            /** @description It has not changed */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The file has no such range */
            416: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    upload: {
        parameters: {
            query?: {
                /** @description Whether it is a tar archive to be unpacked into the directory at the path. */
                unpack?: boolean;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Relative to the workdir */
                path: string;
            };
            cookie?: never;
        };
        /** @description The content; a tar archive as application/x-tar where it is unpacked */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Replaced, or unpacked */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilesWritten"];
                };
            };
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilesWritten"];
                };
            };
            /** @description The content is larger than a file may be */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The session has no room for the content */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Relative to the workdir */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    inspect: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProbeRequest"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InspectReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    interrupt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InterruptReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    is_complete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IsCompleteRequest"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IsCompleteReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    keepalive: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeepaliveReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    reset: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResetReply"];
                };
            };
            /** @description The request failed; `code` says why */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
