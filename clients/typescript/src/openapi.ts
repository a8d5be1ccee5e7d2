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
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This API as OpenAPI 3.1 */
        get: operations["openapi"];
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
    "/v1/admin/collect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Remove what neither a name nor a session has */
        post: operations["admin_collect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Drain the daemon
         * @description It takes no new work any more, waits for executions up to `session.exec_timeout`, and ends every
         *     session. With `exit` it ends too, as after SIGTERM; without, it stays to answer, and only a restart
         *     has it take work again.
         */
        post: operations["admin_drain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/environments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List built environments
         * @description Everybody's, or a tenant's.
         */
        get: operations["admin_list_environments"];
        put?: never;
        /** Build an environment for all, or for a tenant */
        post: operations["admin_build_environment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/environments/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a built environment */
        get: operations["admin_show_environment"];
        put?: never;
        post?: never;
        /** Remove a built environment */
        delete: operations["admin_remove_environment"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/environments/{name}/build": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the last build of an environment, or follow it */
        get: operations["admin_show_build"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/environments/{name}/build/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the log of the last build of an environment */
        get: operations["admin_read_build_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Refuse new sessions and executions
         * @description Of a tenant, or of all. What runs goes on. It outlasts a restart.
         */
        post: operations["admin_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take new work again
         * @description Of a tenant that was paused by itself, or of all. Neither undoes the other.
         */
        post: operations["admin_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How the daemon does */
        get: operations["admin_status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tenants with what they use now */
        get: operations["admin_tenants"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What tenants used
         * @description By hour, day, month or in total, for billing.
         */
        get: operations["admin_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List calls that wait for approval
         * @description Those of the tenant; an administrator's are those of all.
         */
        get: operations["list_approvals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/approvals/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a call that waits for approval, or what became of it */
        get: operations["show_approval"];
        put?: never;
        /**
         * Allow or deny a call that waits
         * @description This takes a token of scope `approve`, or an administrator.
         */
        post: operations["decide_approval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/environments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the tenant's built environments */
        get: operations["list_environments"];
        put?: never;
        /**
         * Build an environment
         * @description Answers at once. Sessions get the environment by its name when the build has succeeded.
         */
        post: operations["build_environment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/environments/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a built environment */
        get: operations["show_environment"];
        put?: never;
        post?: never;
        /**
         * Remove a built environment
         * @description Sessions that have it keep it.
         */
        delete: operations["remove_environment"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/environments/{name}/build": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the last build of an environment, or follow it */
        get: operations["show_build"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/environments/{name}/build/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the log of the last build of an environment */
        get: operations["read_build_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/homes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List homes */
        get: operations["list_homes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/homes/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a home */
        get: operations["show_home"];
        put?: never;
        post?: never;
        /** Remove a home that no session has, with all its files */
        delete: operations["delete_home"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/homes/{id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List files of a home */
        get: operations["list_home_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/homes/{id}/files/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download a file of a home */
        get: operations["read_home_file"];
        put?: never;
        post?: never;
        /** Remove a file of a home, or a directory with all that is in it */
        delete: operations["delete_home_file"];
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
    "/v1/images": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List images: what there is on disk of suspended sessions */
        get: operations["list_images"];
        put?: never;
        /** Import an image: make a suspended session of one that a host with the same key has exported */
        post: operations["import_image"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/images/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the image of a suspended session */
        get: operations["show_image"];
        put?: never;
        post?: never;
        /** Delete the image of a suspended session, and so the session */
        delete: operations["delete_image"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/images/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Export the image of a suspended session, or a checkpoint */
        get: operations["export_image"];
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
        /** Change a session */
        patch: operations["change_session"];
        trace?: never;
    };
    "/v1/sessions/{id}/branch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Branch a session: make others from its state, or a checkpoint's, and leave it as it is */
        post: operations["branch_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the checkpoints of a session */
        get: operations["list_checkpoints"];
        put?: never;
        /** Make a checkpoint: keep what a session is now, to go back to */
        post: operations["make_checkpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a checkpoint */
        delete: operations["delete_checkpoint"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare the variables of two checkpoints of a session, by name */
        get: operations["diff_checkpoints"];
        put?: never;
        post?: never;
        delete?: never;
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
        /**
         * Run a command in a session
         * @description It runs beside the code of the session and beside other commands, of which there may be 32 at a
         *     time. In the background it is answered with its id at once.
         */
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
    "/v1/sessions/{id}/contexts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the contexts of a session */
        get: operations["list_contexts"];
        put?: never;
        /** Open a context */
        post: operations["open_context"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/contexts/{context}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a context */
        get: operations["show_context"];
        put?: never;
        post?: never;
        /** Delete a context */
        delete: operations["delete_context"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/contexts/{context}/interrupt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Interrupt what a context runs */
        post: operations["interrupt_context"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/contexts/{context}/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a context a fresh kernel */
        post: operations["reset_context"];
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
    "/v1/sessions/{id}/executions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the executions of a session */
        get: operations["list_executions"];
        put?: never;
        post?: never;
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
    "/v1/sessions/{id}/executions/{execution_id}/calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the calls that wait for an answer */
        get: operations["list_calls"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/calls/{call_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer a call
         * @description The same answer again changes nothing. Another one gets 409 `call_answered`, and one to a call that waits
         *     no more 410 `call_over`.
         */
        post: operations["answer_call"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/continue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer calls, and wait for the next or for the end
         * @description For code that was run with `wait_for_calls`. Answers as that: with the outcome, or with the calls that wait.
         */
        post: operations["continue_execution"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/outputs/{part}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download one part of an outcome, such as a display that was answered with its sizes only */
        get: operations["output"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/resize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Change the size of a running command's terminal */
        post: operations["resize_pty"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/signal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a signal to a running command
         * @description The signal goes to its process group, `SIGKILL` to all that descends from it too. Code can be sent
         *     `SIGINT` alone.
         */
        post: operations["signal_execution"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/executions/{execution_id}/stdin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Write to the standard input of a running command
         * @description The command has to be started with `stdin_open`. The answer comes when the command, or the pipe to
         *     it, has taken all of the body.
         */
        post: operations["write_stdin"];
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
        /** Download a file, one range of it, or a directory as a tar archive */
        get: operations["download"];
        /** Upload a file, unpack a tar archive, or make a directory */
        put: operations["upload"];
        post?: never;
        /** Remove a file, or a directory with all that is in it */
        delete: operations["delete_file"];
        options?: never;
        head?: never;
        /** Move a file, directory or link, or change its permissions */
        patch: operations["change_file"];
        trace?: never;
    };
    "/v1/sessions/{id}/imageable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether a session can be suspended now, and what is in the way */
        get: operations["session_imageable"];
        put?: never;
        post?: never;
        delete?: never;
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
    "/v1/sessions/{id}/ports/{port}/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a request to a server in a session
         * @description Any method, and `WebSocket`. Bodies are streamed both ways. See the page about ports for what of
         *     requests and answers is not passed on.
         */
        get: operations["request_port"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/previews": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Show a server in a session to browsers
         * @description The URL opens it in a browser, on an origin of its own, until it expires.
         */
        post: operations["create_preview"];
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
    "/v1/sessions/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Resume a suspended session; one that is not suspended stays as it is */
        post: operations["resume_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Roll a session back: have it be what it was at a checkpoint; what runs in it ends */
        post: operations["roll_back_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/suspend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Suspend a session: write its memory and files to disk, and end its processes */
        post: operations["suspend_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watch files
         * @description Changes below a directory, as they come.
         */
        get: operations["watch_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List volumes */
        get: operations["list_volumes"];
        put?: never;
        /** Make a volume */
        post: operations["make_volume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a volume */
        get: operations["show_volume"];
        put?: never;
        post?: never;
        /** Remove a volume that no session has, with all its files */
        delete: operations["delete_volume"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{name}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List files of a volume */
        get: operations["list_volume_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{name}/files/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download a file of a volume */
        get: operations["read_volume_file"];
        put?: never;
        post?: never;
        /** Remove a file of a volume, or a directory with all that is in it */
        delete: operations["delete_volume_file"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description How the daemon does. */
        AdminStatus: {
            /**
             * Format: int64
             * @description What the daemon holds of requests and results.
             */
            buffered_bytes: number;
            /** @description Whether it takes no new work any more, and ends when its sessions have. */
            draining: boolean;
            /** @description The interpreters that sessions can use, ordered by name */
            environments: components["schemas"]["EnvironmentStatus"][];
            /** @description Why the last reload changed nothing; null after one that succeeded */
            failed_reload?: components["schemas"]["FailedReload"] | null;
            /**
             * Format: int64
             * @description The most that it may hold of them
             */
            max_buffered_bytes: number;
            /** @description Memory for more sessions */
            memory: components["schemas"]["MemoryCapacity"];
            /** @description `auto`, `on` or `off` */
            mode: string;
            /** @description Since when and why new work is refused; null if it is not */
            paused?: components["schemas"]["PauseInfo"] | null;
            /** @description The tenants that are paused by themselves. */
            paused_tenants: {
                [key: string]: components["schemas"]["PauseInfo"];
            };
            /**
             * Format: int32
             * @description Its process on the host.
             */
            pid: number;
            /**
             * Format: int64
             * @description Executions that wait in them.
             */
            queued: number;
            /** @description Sessions by state; a state without any is left out. */
            sessions: {
                [key: string]: number;
            };
            /**
             * Format: date-time
             * @description When it was started
             */
            started_at: string;
            /** @description Tenants from a directory or a command; null if all are in the configuration file */
            tenant_sources?: components["schemas"]["TenantSourcesInfo"] | null;
            /** @description How many tenants there are. */
            tenants: number;
            /**
             * Format: int64
             * @description How long it has run
             */
            uptime_seconds: number;
            /** @description What it used */
            usage: components["schemas"]["LedgerInfo"];
            /** @description Version of the daemon */
            version: string;
        };
        /** @description A tenant. A figure is null without the cgroup controller it needs. */
        AdminTenant: {
            /** @description False if it was removed and still has sessions. */
            configured: boolean;
            /**
             * Format: double
             * @description CPU time since the daemon started, in seconds.
             */
            cpu_seconds?: number | null;
            /** @description The tenant's maximum of sessions */
            max_sessions: number | "unlimited";
            /**
             * Format: int64
             * @description Memory charged now
             */
            memory_bytes?: number | null;
            /** @description Its name */
            name: string;
            /** @description Since when and why new work is refused; null if it is not */
            paused?: components["schemas"]["PauseInfo"] | null;
            /**
             * Format: int64
             * @description Processes and threads now
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
             * @description The sessions, ordered by id
             */
            sessions: number;
            /** @description Its tokens, as they are configured */
            tokens: components["schemas"]["TokenInfo"][];
        };
        /** @description Every tenant that is configured or has sessions, ordered by name. */
        AdminTenantList: {
            /** @description The tenants, ordered by name */
            tenants: components["schemas"]["AdminTenant"][];
        };
        /** @description How an answer tells what came of an execution. */
        AnswerForm: {
            /**
             * @description `full`, or `sizes` without the content of printed text, the value, displays, images and
             *     frames. A stream of events has printed text all the same.
             */
            content?: components["schemas"]["Content"];
            /**
             * @description Which fields have what code printed, showed, returned and raised: `separate` ones, or
             *     `outputs`, in order as a `notebook` has them, or `both`.
             */
            format?: components["schemas"]["OutputFormat"];
        };
        /**
         * @description What to do with a call that waits.
         * @enum {string}
         */
        ApprovalDecision: "allow" | "deny";
        /** @description A destination that is on no list. */
        ApprovalEgress: {
            /** @description A name, or an address. */
            host: string;
            /**
             * Format: int32
             * @description TCP.
             */
            port: number;
        };
        /** @description An execution that waits for approval. */
        ApprovalExecution: {
            /** @description The command; null for code, and in lists. */
            argv?: string[] | null;
            /** @description The code; null for a command, and in lists. */
            code?: string | null;
            /**
             * Format: int64
             * @description Of code, or of all arguments together.
             */
            code_bytes: number;
            /** @description SHA-256 of the code, or of each argument followed by a zero byte, as in the audit log. */
            code_sha256: string;
            /** @description The names of the variables that the request sets. */
            env: string[];
            /** @description Name of the environment */
            environment: string;
            /** @description The names of the files that the request brings, at most 100. */
            files: string[];
            /** @description Its id in its session. */
            id: string;
            /** @description What it is */
            kind: components["schemas"]["ExecutionKind"];
            /**
             * @description What the session can reach: nothing (`none`), itself (`loopback`) or what the host can (`full`)
             * @enum {string}
             */
            network: "none" | "loopback" | "trusted" | "full";
            /**
             * Format: int64
             * @description How long it may run, in milliseconds.
             */
            timeout_ms: number;
            /** @description The names of the client's functions that its code can call. */
            tools?: string[];
            /** @description Whether code or command are cut off after 64 KiB. */
            truncated: boolean;
        };
        /** @description A call that waits until somebody decides, or what became of it. */
        ApprovalInfo: {
            /**
             * Format: date-time
             * @description When it began to wait.
             */
            asked_at: string;
            /** @description Who decided: for tenants `administrator` and `webhook`, and the names of their own tokens. */
            by?: string | null;
            /** @description The destination that is to be reached; null where something is to run. In rules: what becomes of destinations that are on no list */
            egress?: components["schemas"]["ApprovalEgress"] | null;
            /**
             * Format: date-time
             * @description When it was decided, timed out or was withdrawn; null while it waits.
             */
            ended_at?: string | null;
            /** @description What is to run; null where a destination is to be reached */
            execution?: components["schemas"]["ApprovalExecution"] | null;
            /**
             * Format: date-time
             * @description When it is denied if nobody decides.
             */
            expires_at: string;
            /** @description Unique among the tenant's sessions */
            id: string;
            /** @description Why, in the words of whoever decided; the tenant sees it too. */
            reason?: string | null;
            /** @description What was remembered, or can be at most while it is pending. */
            remember: components["schemas"]["Remember"];
            /** @description The session's id */
            session_id: string;
            /** @description The state: of an outcome, whether variables and modules survived */
            state: components["schemas"]["ApprovalState"];
            /** @description The tenant that owns it */
            tenant: string;
        };
        /** @description Part of a list of approvals, oldest first. */
        ApprovalPage: {
            /** @description Oldest first. */
            approvals: components["schemas"]["ApprovalInfo"][];
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
        };
        /**
         * @description What becomes of a call, in the order of how tight that is.
         * @enum {string}
         */
        ApprovalRule: "allow" | "ask" | "deny";
        /** @description Rules tighter than the tenant's: `ask` where that allows, `deny` where it allows or asks. */
        ApprovalSpec: {
            /** @description The destination that is to be reached; null where something is to run. In rules: what becomes of destinations that are on no list */
            egress?: components["schemas"]["ApprovalRule"] | null;
            /** @description What becomes of code and commands; as the rule that holds says if not given */
            executions?: components["schemas"]["ApprovalRule"] | null;
        };
        /**
         * @description How far an approval has come.
         * @enum {string}
         */
        ApprovalState: "pending" | "allowed" | "denied" | "timed_out" | "withdrawn";
        /** @description Which audit events of Python (PEP 578) code may raise. All are counted. */
        AuditEventsSpec: {
            /** @description Events that raise an error in the code, by their whole names, such as `socket.connect`. */
            deny?: string[];
        };
        /** @description `awaiting_approval`: the execution waits until somebody allows it. */
        AwaitingApprovalEvent: {
            /** @description Which approval it waits for. */
            approval_id: string;
            /** @description Unique within the session. */
            execution_id: string;
            /**
             * Format: date-time
             * @description When it is denied if nobody decides.
             */
            expires_at: string;
            /** @description The session's id */
            session_id: string;
        };
        /** @description A command that runs in the background. */
        BackgroundReply: {
            /** @description By which its state and events are found, and with which it is written to and signalled. */
            execution_id: string;
            /** @description The session's id */
            session_id: string;
        };
        /** @description The sessions that a branch made. */
        BranchReply: {
            /** @description As many as requested: if one cannot be made, the request fails and none is left. */
            sessions: components["schemas"]["SessionInfo"][];
        };
        /** @description How to branch a session. */
        BranchRequest: {
            /** @description The checkpoint whose state they get; null for the session's present state. */
            checkpoint?: string | null;
            /**
             * Format: int32
             * @description How many sessions to make, 1 to 100.
             * @default 1
             */
            count: number;
        };
        /** @description The last build of an environment. */
        BuildInfo: {
            /** @description SHA-256 of what was built. */
            artefact?: string | null;
            /**
             * Format: date-time
             * @description When it ended; null while it builds.
             */
            ended_at?: string | null;
            /** @description Why it failed. The log has more. */
            error?: string | null;
            /** @description Of the environment. */
            name: string;
            /**
             * Format: date-time
             * @description When it was started
             */
            started_at: string;
            /**
             * @description The state: of an outcome, whether variables and modules survived
             * @enum {string}
             */
            state: "building" | "succeeded" | "failed";
        };
        /** @description An environment to build: `requirements`, or `pyproject` with or without `lock`. */
        BuildRequest: {
            /** @description The configured environment whose interpreter it uses; `default` if not given. */
            base?: string | null;
            /** @description The content of the uv.lock that goes with it. */
            lock?: string | null;
            /**
             * @description 1 to 64 of `A-Z a-z 0-9 _ -`, and no configured environment's. An environment of this name is
             *     replaced when the build has succeeded; sessions that have it keep it.
             */
            name: string;
            /** @description The content of a pyproject.toml, whose dependencies are installed, and not the project itself. */
            pyproject?: string | null;
            /** @description The content of a requirements.txt. If it has any `--hash`, every distribution needs one. */
            requirements?: string | null;
        };
        /** @description An environment that was built. */
        BuiltEnvironmentInfo: {
            /** @description SHA-256 over paths, modes and contents of its files. */
            artefact: string;
            /** @description The configured environment whose interpreter it uses. */
            base: string;
            /**
             * Format: date-time
             * @description When its build ended.
             */
            built_at: string;
            /** @description What is installed, such as `six-1.16.0`, by the names of files that the packages chose. */
            distributions: string[];
            /** @description Whether it has the files of wheels that were given by their hashes, and nothing else. */
            hash_locked: boolean;
            /** @description Whether a session has it now. */
            in_use: boolean;
            /**
             * Format: int64
             * @description Files, directories and links.
             */
            inodes: number;
            /** @description Its name */
            name: string;
            /** @description Of that interpreter, such as `3.11.2`. */
            python_version: string;
            /**
             * Format: int64
             * @description Size in bytes
             */
            size_bytes: number;
            /** @description Whose it is; null if it is the operator's, for all tenants. */
            tenant?: string | null;
        };
        /** @description Environments that were built. */
        BuiltEnvironmentList: {
            /** @description The interpreters that sessions can use, ordered by name */
            environments: components["schemas"]["BuiltEnvironmentInfo"][];
        };
        /** @description The answer to a call: `result` or `error`. */
        CallAnswer: {
            /** @description What the call raises, as `vivarium.ToolError` */
            error?: components["schemas"]["CallError"] | null;
            /** @description What the call returns: any JSON. */
            result?: unknown;
        };
        /** @description `call_ended`: a call waits no more. */
        CallEndedEvent: {
            /** @description Unique within the execution. */
            call_id: string;
            /** @description Unique within the session */
            execution_id: string;
            /**
             * @description Null until it is over. A streamed execution keeps at most the first 256 KiB of each of stdout and stderr
             * @enum {string}
             */
            outcome: "result" | "error" | "refused" | "timeout" | "withdrawn" | "ended";
            /** @description The session's id */
            session_id: string;
        };
        /** @description Why a tool has no result. */
        CallError: {
            /** @description More about it, which code finds in the exception's `data`: any JSON. */
            data?: unknown;
            /** @description The text of the exception */
            message: string;
        };
        /** @description `call`: code has called a tool, and waits. */
        CallEvent: {
            /** @description Its arguments, by name, as its schema allows them. */
            arguments: Record<string, never>;
            /** @description Unique within the execution. */
            call_id: string;
            /** @description Unique within the session */
            execution_id: string;
            /**
             * Format: date-time
             * @description When the call ends by itself if it is not answered.
             */
            expires_at: string;
            /** @description The session's id */
            session_id: string;
            /** @description The tool's name. */
            tool: string;
        };
        /** @description A call that waits for its answer. */
        CallInfo: {
            /** @description Its arguments, by name, as its schema allows them. */
            arguments: Record<string, never>;
            /** @description Unique within the execution. */
            call_id: string;
            /**
             * Format: date-time
             * @description When the call ends by itself if it is not answered.
             */
            expires_at: string;
            /** @description The tool's name. */
            tool: string;
        };
        /** @description The calls of an execution that wait for an answer. */
        CallList: {
            /** @description In the order in which they were made. */
            calls: components["schemas"]["CallInfo"][];
        };
        /** @description What the tenant may still start */
        Capacity: {
            /** @description CPUs that the daemon may use. */
            cpus: number;
            /** @description The tenant's maximum of sessions */
            max_sessions: number | "unlimited";
            /** @description Memory for more sessions */
            memory?: components["schemas"]["MemoryCapacity"];
            /** @description Executions that may wait in each session. */
            queue_depth: number;
            /** @description The tenant's sessions now. */
            sessions: number;
        };
        /** @description A file that an execution made, changed or deleted. */
        ChangedFile: {
            /** @description Whether it is gone. Left out if it is not. May be a directory that was moved away. */
            deleted?: boolean;
            /** @description Path relative to the workdir. */
            name: string;
            /**
             * Format: int64
             * @description Size in bytes
             */
            size_bytes: number;
        };
        /** @description What a session was at a moment, to go back to. */
        Checkpoint: {
            /**
             * Format: date-time
             * @description When it was created
             */
            created_at: string;
            /**
             * Format: int64
             * @description The number of the session's last execution then.
             */
            executions: number;
            /** @description Its name */
            name: string;
            /**
             * Format: int64
             * @description Bytes on disk: memory and files, compressed.
             */
            size_bytes: number;
        };
        /**
         * @description Which of a session's variables, the global names of its main context without those that begin with `_`, are
         *     different at a checkpoint from what they were at another. Tenant code has chosen names and types: treat them as
         *     untrusted.
         */
        CheckpointDiff: {
            /** @description Variables that were not there. */
            added: components["schemas"]["Variable"][];
            /**
             * @description Variables that are bound to another object, or to a number or text of another value, or whose list, dict, set
             *     or tuple has another length. What changed deeper inside an object is not seen.
             */
            changed: components["schemas"]["Variable"][];
            /** @description The checkpoint that the other is compared with; null if none is before it, and all variables count as added. */
            from?: string | null;
            /**
             * @description Whether variables may be missing here: a checkpoint keeps the 500 newest, and none if the session was
             *     suspended when it was made.
             */
            more: boolean;
            /** @description Variables that are no more there. */
            removed: components["schemas"]["Variable"][];
            /** @description The checkpoint. */
            to: string;
        };
        /** @description The checkpoints of a session. */
        CheckpointList: {
            /** @description The oldest first. */
            checkpoints: components["schemas"]["Checkpoint"][];
        };
        /** @description How to name a checkpoint. */
        CheckpointRequest: {
            /** @description 1 to 64 of A-Z a-z 0-9 _ -, but none of `after-` and a number; null for the least number that none of the session's has. */
            name?: string | null;
        };
        /** @description What was removed because neither a name nor a session had it. */
        CollectReply: {
            /**
             * Format: int64
             * @description How many.
             */
            artefacts: number;
            /**
             * Format: int64
             * @description What they took of the disk.
             */
            bytes: number;
        };
        /** @description A process to run in a session's sandbox, beside its kernel: `argv` or `shell`. */
        CommandRequest: {
            /** @description How the answer tells what came of it; in separate fields if not given */
            answer?: components["schemas"]["AnswerForm"] | null;
            /** @description What somebody has to allow first: no less than the rule that holds */
            approval?: components["schemas"]["ApprovalSpec"] | null;
            /** @description The program, looked for on PATH unless it has a slash, and its arguments. */
            argv?: string[] | null;
            /**
             * @description Answer at once with the execution's id, and let it run until its own `timeout_ms`, a reset or
             *     the session's end.
             */
            background?: boolean;
            /** @description Interrupt it when the client goes away. */
            cancel_on_disconnect?: boolean;
            /** @description Its working directory, in the workdir; the workdir itself if not given. */
            cwd?: string | null;
            /** @description Variables for it alone, beside the session's. */
            env?: {
                [key: string]: string;
            };
            /** @description Files to put into the workdir first. */
            files?: components["schemas"]["FileSpec"][];
            /** @description Which part of a text longer than `max_output_chars` is kept. */
            keep?: components["schemas"]["Keep"];
            /**
             * Format: int64
             * @description The most characters of each text that the answer tells: stdout, stderr, the result's and a
             *     display's plain text, an exception's message and traceback. Other text forms that are longer
             *     are left out.
             */
            max_output_chars?: number | null;
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /** @description Run it on a terminal of this size, its controlling one: all it prints is then its `stdout`. What is written to it is typed there, so Ctrl-C is the byte 3; closing it types Ctrl-D. `TERM` is `xterm-256color` unless `env` has it */
            pty?: components["schemas"]["PtySize"] | null;
            /** @description Wait for its turn, behind the code that the session was sent before. */
            queued?: boolean;
            /** @description A command line for `/bin/sh -c`. */
            shell?: string | null;
            /** @description Standard input as text; empty if neither is given. */
            stdin?: string | null;
            /** @description Standard input in base64. */
            stdin_base64?: string | null;
            /**
             * @description Standard input is left open: write to it with `POST
             *     /v1/sessions/{id}/executions/{execution_id}/stdin`.
             */
            stdin_open?: boolean;
            /**
             * @description Let it go on when the session is reset: in the background, and with the cgroup layer, without
             *     which a reset ends every process.
             */
            survives_reset?: boolean;
            /**
             * Format: int64
             * @description Milliseconds it may run; if not given the configured time, and any time for one in the
             *     background or on a terminal.
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
        /**
         * @description Whether an answer has content or tells only how large it is.
         * @enum {string}
         */
        Content: "full" | "sizes";
        /** @description Where the content of an output is in the separate fields, and how large. */
        ContentInfo: {
            /** @description `result` or, counted from 0, `displays/0`, `images/0`, `video_frames/0`. */
            part: string;
            /** @description Size of each representation by MIME type, decoded, in bytes */
            sizes: {
                [key: string]: number;
            };
        };
        /**
         * @description A context: a kernel with variables and a queue of its own, in a session whose files and limits it
         *     shares with others.
         */
        ContextInfo: {
            /**
             * Format: int64
             * @description Counts its kernels from 1; null before there is one.
             */
            generation?: number | null;
            /** @description `main` is the one that every session has. */
            id: string;
            /**
             * @description Whether the kernel was `forked` from the environment's template or `executed`; null before there is one. Both are confined alike
             * @enum {string|null}
             */
            kernel_origin?: "executed" | "forked" | "executed_for_packages" | null;
            /**
             * Format: int64
             * @description Executions that wait for it.
             */
            queued: number;
            /** @description The id of the execution that its kernel runs; null if it runs none. */
            running?: string | null;
            /** @description The session's id */
            session_id: string;
            /** @description The state: of an outcome, whether variables and modules survived */
            state: components["schemas"]["SessionState"];
        };
        /** @description The contexts of a session, `main` first, then in the order in which they were opened. */
        ContextList: {
            /** @description All of them: there are few. */
            contexts: components["schemas"]["ContextInfo"][];
        };
        /** @description A context to open. */
        ContextSpec: {
            /**
             * @description Unique within the session: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`. A random one if not
             *     given.
             */
            id?: string | null;
        };
        /** @description Answers to calls, after which the execution goes on. */
        ContinueRequest: {
            /** @description By the calls' ids. Those that are missing stay open. */
            answers?: {
                [key: string]: components["schemas"]["CallAnswer"];
            };
        };
        /** @description A decision about a call that waits. */
        DecideRequest: {
            /** @description Whether the call goes on. */
            decision: components["schemas"]["ApprovalDecision"];
            /** @description Why: at most 200 characters. The tenant sees it. */
            reason?: string | null;
            /** @description What is remembered of the decision; what the tenant's rule says if not given */
            remember?: components["schemas"]["Remember"] | null;
        };
        /** @description An object that code passed to `display()` */
        Display: {
            /** @description The `display_id`, if the code gave one. */
            id?: string | null;
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
            /** @description Size of each representation by MIME type, decoded, in bytes */
            sizes?: {
                [key: string]: number;
            };
        };
        /** @description `display`: a display, figure or frame. */
        DisplayEvent: {
            /** @description The `display_id`, if the code gave one. */
            id?: string | null;
            /**
             * @description What it is
             * @enum {string}
             */
            kind: "display" | "update" | "clear" | "image" | "video_frame";
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
            /** @description Size of each representation by MIME type, decoded, in bytes */
            sizes?: {
                [key: string]: number;
            };
        };
        /** @description `done`: the execution is over. The outcome, without the content of earlier events. */
        DoneEvent: {
            /**
             * @description Why it ended so, if the status alone does not say; else null
             * @enum {string|null}
             */
            cause?: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "expired" | "suspended" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown" | "approval_denied" | "approval_timeout" | "work_limit" | null;
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
            /** @description The kernel that it ran in; null if it was rejected before there was one */
            kernel?: components["schemas"]["KernelInfo"] | null;
            /** @description Whether the kernel was lost, and the session was rolled back to a checkpoint. */
            rolled_back?: boolean;
            /** @description Whether this request created the session. */
            session_created: boolean;
            /** @description The session's id */
            session_id: string;
            /**
             * @description The state: of an outcome, whether variables and modules survived
             * @enum {string}
             */
            state: "preserved" | "lost";
            /**
             * @description How it ended, or how far it is enforced
             * @enum {string}
             */
            status: "ok" | "error" | "timed_out" | "interrupted" | "killed" | "rejected";
            /** @description Whether some of stderr was not sent. */
            stderr_truncated: boolean;
            /** @description Whether some of stdout was not sent. */
            stdout_truncated: boolean;
            /** @description What it used */
            usage: components["schemas"]["ExecutionUsage"];
        };
        /** @description A drain has begun, or had before. */
        DrainReply: {
            /** @description Whether the daemon ends too */
            exit: boolean;
            /** @description Sessions that are left. */
            sessions: number;
        };
        /** @description How to drain. */
        DrainRequest: {
            /**
             * @description End the daemon after that, as SIGTERM does.
             * @default false
             */
            exit: boolean;
        };
        /**
         * @description Which of the code's expressions are shown as values.
         * @enum {string}
         */
        Echo: "last" | "all" | "none";
        /** @description An image, such as a figure */
        EncodedImage: {
            /** @description Base64. */
            data: string;
            /** @description Such as `image/png`. */
            mime_type: string;
            /**
             * Format: int64
             * @description Size of the image, decoded.
             */
            size_bytes?: number;
        };
        /** @description An interpreter that sessions can use, and the packages that are built on top of it. */
        EnvironmentInfo: {
            /** @description The configured environment that a built one is on top of; null if it is a configured one itself. */
            base?: string | null;
            /** @description Path on the host; of a built environment its base's, and of runtime `wasm` the engine's program. */
            interpreter: string;
            /** @description Its name */
            name: string;
            /** @description Sessions kept ready; null if none are */
            pool?: components["schemas"]["PoolInfo"] | null;
            /** @description Such as `3.11.2`. */
            python_version: string;
            /** @description `cpython`, or `wasm`: CPython in a WebAssembly engine */
            runtime?: string;
            /** @description The process that kernels are forked from */
            template: components["schemas"]["TemplateInfo"];
        };
        /** @description An environment as it is now. */
        EnvironmentStatus: {
            /** @description Layers of the sandbox by status: `enforced`, `partial`, `unavailable`, `off`. */
            layers: {
                [key: string]: string[];
            };
            /** @description Its name */
            name: string;
            /** @description Sessions ready in the pools of all tenants. */
            pooled: number;
            /** @description The process that kernels are forked from */
            template: components["schemas"]["TemplateInfo"];
        };
        /** @description Code to run in a session. */
        ExecuteRequest: {
            /** @description How the answer tells what came of it; in separate fields if not given */
            answer?: components["schemas"]["AnswerForm"] | null;
            /** @description What somebody has to allow first: no less than the rule that holds */
            approval?: components["schemas"]["ApprovalSpec"] | null;
            /** @description Counts Python's audit events (PEP 578), and raises an error for those in `deny` */
            audit_events?: components["schemas"]["AuditEventsSpec"] | null;
            /** @description Interrupt it when the client goes away. */
            cancel_on_disconnect?: boolean;
            /** @description The Python code */
            code: string;
            /** @description The context that runs it; `main` if not given. */
            context?: string | null;
            /**
             * @description The working directory while it runs, in the workdir. If not given it is where the code before
             *     has left it.
             */
            cwd?: string | null;
            /** @description Whose values are shown: of the `last` expression if not given, of `all`, or `none` */
            echo?: components["schemas"]["Echo"] | null;
            /** @description Variables of `os.environ` while it runs. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description The code's file name in tracebacks: a path in the workdir. If there is a file of that name,
             *     `__file__` is its path, and modules beside it can be imported.
             */
            filename?: string | null;
            /** @description Files to put into the workdir first. */
            files?: components["schemas"]["FileSpec"][];
            /** @description Which modules code may import itself: `allow` or `deny` */
            imports?: components["schemas"]["ImportsSpec"] | null;
            /** @description Which part of a text longer than `max_output_chars` is kept. */
            keep?: components["schemas"]["Keep"];
            /**
             * Format: int64
             * @description The most characters of each text that the answer tells: stdout, stderr, the result's and a
             *     display's plain text, an exception's message and traceback. Other text forms that are longer
             *     are left out.
             */
            max_output_chars?: number | null;
            /**
             * Format: int64
             * @description The most work, in ticks: backward jumps, function starts and generator resumes of its own
             *     code. Needs Python 3.12.
             */
            max_work?: number | null;
            /**
             * @description Modules that its code can import, and no other: objects of JSON by name, whose members are the
             *     module's names. At most 64, of 1 MiB together.
             */
            modules?: {
                [key: string]: Record<string, never>;
            };
            /** @description Which names it leaves to the next execution: `keep` or `drop` */
            names?: components["schemas"]["NamesSpec"] | null;
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /** @description Policies of the language by one name: what holds that the others do not say */
            policy?: components["schemas"]["Preset"] | null;
            /** @description Whether the answer has the values that were printed, in `prints`. */
            prints?: boolean | null;
            /** @description `repr()` of the value */
            repr?: components["schemas"]["ReprSpec"] | null;
            /**
             * Format: int64
             * @description Milliseconds it may run; the configured time if not given.
             */
            timeout_ms?: number | null;
            /**
             * @description Tool servers of the operator's whose tools its code can call: those that the tenant may have
             *     (`session.tool_servers`).
             */
            tool_servers?: string[];
            /**
             * @description Functions of the client's that its code can call: `from vivarium import tools`. They come before those of its
             *     session that have the same names. At most 128.
             */
            tools?: components["schemas"]["ToolSpec"][];
            /** @description Whether the tools' names are put into the code's globals too. */
            tools_as_globals?: boolean;
            /**
             * @description Whether to answer, with `status` `waiting` and `calls`, when code waits for the answer to a call: `POST
             *     …/continue` goes on. For clients that follow no events.
             */
            wait_for_calls?: boolean;
        };
        /** @description An execution: how far it has come, and its outcome. */
        ExecutionInfo: {
            /** @description Null until it is over. A streamed execution keeps at most the first 256 KiB of each of stdout and stderr */
            outcome?: components["schemas"]["Outcome"] | null;
            /** @description The state: of an outcome, whether variables and modules survived */
            state: components["schemas"]["Progress"];
        };
        /**
         * @description What an execution runs.
         * @enum {string}
         */
        ExecutionKind: "code" | "command";
        /** @description Part of a list of executions, newest first. */
        ExecutionPage: {
            /** @description Those that wait or run, and those whose result is still kept. */
            executions: components["schemas"]["ExecutionSummary"][];
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
        };
        /** @description An execution in a list. */
        ExecutionSummary: {
            /**
             * Format: date-time
             * @description When it ended; null until it has.
             */
            ended_at?: string | null;
            /** @description Unique within the session. */
            id: string;
            /** @description What it is */
            kind: components["schemas"]["ExecutionKind"];
            /**
             * Format: date-time
             * @description When the request came.
             */
            queued_at: string;
            /**
             * Format: date-time
             * @description When it began to run; null before, and if it never did.
             */
            started_at?: string | null;
            /** @description The state: of an outcome, whether variables and modules survived */
            state: components["schemas"]["Progress"];
            /**
             * @description How it ended, or how far it is enforced
             * @enum {string|null}
             */
            status?: "ok" | "error" | "timed_out" | "interrupted" | "killed" | "rejected" | null;
        };
        /** @description What an execution used */
        ExecutionUsage: {
            /**
             * Format: double
             * @description CPU time of all its context's processes during it, in milliseconds. Children that were
             *     never waited for are in it with the cgroup layer, if they used more than 10 ms.
             */
            cpu_ms: number;
            /**
             * Format: int64
             * @description Bytes read from disks; null without an io controller, and if others ran meanwhile.
             */
            io_read_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes written to disks; null without an io controller, and if others ran meanwhile.
             */
            io_write_bytes?: number | null;
            /**
             * Format: int64
             * @description Highest memory, in bytes. With a memory controller: charged to the whole session while
             *     the execution ran, or to its context alone if others ran meanwhile (Linux 6.12; before that
             *     only if it was the highest so far). Else the kernel process's largest resident set since it
             *     was started.
             */
            memory_peak_bytes: number;
            /**
             * Format: int64
             * @description Ticks of the code's work, as its kernel counts them; only with the policy `max_work`.
             */
            work?: number | null;
        };
        /** @description A reload that was refused: the configuration that was there before still holds. */
        FailedReload: {
            /**
             * Format: date-time
             * @description When it happened
             */
            at: string;
            /** @description What is wrong, with file and line. */
            error: string;
        };
        /** @description A change of a file, directory or link. Permissions change before it is moved. */
        FileChange: {
            /**
             * @description New permissions in octal, `0000` to `0777`; not of links.
             * @default null
             */
            mode: string | null;
            /**
             * @description Its new path, beneath the same root. Missing parent directories are made.
             * @default null
             */
            move_to: string | null;
            /**
             * @description Whether to replace a file, or an empty directory by a directory.
             * @default false
             */
            replace: boolean;
        };
        /** @description A change below a directory that is watched. */
        FileEventInfo: {
            /** @description Whether it is a directory. */
            directory: boolean;
            /** @description The path before; only of `moved`. */
            from?: string | null;
            /** @description Path relative to the workdir; absolute for files in `/tmp`. */
            path: string;
        };
        /**
         * @description How the content of a file is encoded.
         * @enum {string}
         */
        FileFormat: "text" | "base64";
        /** @description A file, directory or link. */
        FileInfo: {
            /**
             * @description What it is
             * @enum {string}
             */
            kind: "file" | "directory" | "link" | "other";
            /** @description Guessed from the name; null unless it is a file. */
            mime_type?: string | null;
            /** @description Permissions in octal, such as `0644`. */
            mode: string;
            /**
             * Format: date-time
             * @description Time of the last modification, which tenant code can set.
             */
            modified_at: string;
            /** @description Path relative to the workdir; absolute for files in `/tmp`. */
            path: string;
            /**
             * Format: int64
             * @description Size in bytes
             */
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
        /** @description A home. */
        HomeInfo: {
            /** @description The id of its sessions, or `@tenant`. */
            id: string;
            /**
             * @description What it is
             * @enum {string}
             */
            kind: "off" | "session" | "tenant";
            /** @description What it takes of the disk */
            storage: components["schemas"]["StorageInfo"];
        };
        /** @description The tenant's homes. */
        HomeList: {
            /** @description The tenant's homes */
            homes: components["schemas"]["HomeInfo"][];
        };
        /** @description What this host offers. */
        HostInfo: {
            /** @description What the tenant may still start */
            capacity: components["schemas"]["Capacity"];
            /**
             * @description What the tenant's sessions can have by name: configured environments, the operator's built ones and
             *     the tenant's own.
             */
            environments: components["schemas"]["EnvironmentInfo"][];
            /** @description Whether a session that asks for no other network can install packages through the egress gate. */
            installs_packages?: boolean;
            /** @description Release of the Linux kernel. */
            kernel: string;
            /** @description Every layer of the sandbox, as a trial session of the default environment reported it */
            layers: {
                /** @description What happened, in words; may be empty */
                detail: string;
                /** @description What an operator can do about it; may be empty */
                fix: string;
                /** @description Name of the layer, such as `seccomp` */
                layer: string;
                /**
                 * @description How it ended, or how far it is enforced
                 * @enum {string}
                 */
                status: "enforced" | "partial" | "unavailable" | "off";
            }[];
            /** @description `auto`, `on` or `off` */
            mode: string;
            /** @description Version of the daemon */
            version: string;
        };
        /** @description The image of a suspended session: what there is of it on disk. */
        ImageInfo: {
            /** @description Whether calls resume the session. */
            auto_resume: boolean;
            /**
             * Format: date-time
             * @description When the session is deleted unless it is resumed before; null if never.
             */
            expires_at?: string | null;
            /**
             * Format: int64
             * @description Bytes on disk: memory and files, compressed.
             */
            size_bytes: number;
            /**
             * Format: date-time
             * @description When the session was suspended.
             */
            suspended_at: string;
        };
        /** @description A part of the list of images. */
        ImagePage: {
            /** @description In the order of their sessions' ids. */
            images: components["schemas"]["StoredImage"][];
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
        };
        /** @description Whether a session can be suspended now. */
        ImageableReply: {
            /** @description Whether it can. The answer holds until something runs in the session. */
            imageable: boolean;
            /** @description What is in the way, and what to do about it; empty if nothing is. */
            reasons: string[];
        };
        /** @description Which modules code may import itself: one of the lists. A name covers its submodules. */
        ImportsSpec: {
            /** @description These alone. */
            allow?: string[] | null;
            /** @description All but these. */
            deny?: string[] | null;
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
            /** @description What happened, in words; may be empty */
            detail: string;
            /** @description Null if nothing was running. */
            execution_id?: string | null;
            /** @description Whether the execution has ended. */
            interrupted: boolean;
            /** @description The session's id */
            session_id: string;
        };
        /** @description Whether code can be executed, as the kernel judges it. */
        IsCompleteReply: {
            /** @description The indentation of the next line of incomplete code; otherwise empty. */
            indent?: string;
            /** @description How it ended, or how far it is enforced */
            status: components["schemas"]["Completeness"];
        };
        /** @description Code that may need another line. */
        IsCompleteRequest: {
            /** @description The code. */
            code: string;
            /** @description The context whose kernel is asked; `main` if not given. */
            context?: string | null;
        };
        /**
         * @description Which part of a long text is kept.
         * @enum {string}
         */
        Keep: "head" | "tail" | "both";
        /** @description The result of a keepalive. */
        KeepaliveReply: {
            /**
             * Format: date-time
             * @description When the session is deleted unless it is used before.
             */
            expires_at: string;
            /** @description The session's id */
            session_id: string;
        };
        /** @description The kernel that an execution ran in */
        KernelInfo: {
            /**
             * @description Whose kernel it is; `main` unless the request has named another. Of a command, which runs
             *     beside it, always `main`.
             */
            context: string;
            /** @description Whether no code had run in it before. */
            fresh: boolean;
            /**
             * Format: int64
             * @description Counts the context's kernels from 1. If it differs between two executions, variables and
             *     modules are lost.
             */
            generation: number;
            /** @description Why the previous kernel ended; null for the first */
            previous_end?: components["schemas"]["PreviousEnd"] | null;
        };
        /** @description The ledger of what tenants used. */
        LedgerInfo: {
            /** @description Files that were put aside at start, as they were damaged. */
            damaged: string[];
            /** @description Why it fails or is off. */
            error?: string | null;
            /**
             * Format: date-time
             * @description When it was last written; null if it was not yet
             */
            flushed_at?: string | null;
            /** @description `kept`, `failing` (it cannot be written, and is tried again) or `off` */
            state: string;
        };
        /** @description The limits of a session: each a positive integer or `"unlimited"`. */
        LimitsInfo: {
            /** @description CPU cores, such as 0.5. */
            cpu_cores: number | "unlimited";
            /** @description CPU time of one execution, in seconds. */
            max_cpu_secs: number | "unlimited";
            /** @description Workdir and temporary files together, in MiB. */
            max_disk_mb: number | "unlimited";
            /** @description Largest file, in MiB. */
            max_file_size_mb: number | "unlimited";
            /** @description Files, directories and links together. */
            max_inodes: number | "unlimited";
            /** @description Memory of the whole session, in MiB. */
            max_memory_mb: number | "unlimited";
            /** @description Open file descriptors per process. */
            max_open_fds: number | "unlimited";
            /** @description Bytes kept of each of stdout and stderr, per execution. */
            max_output_bytes: number | "unlimited";
            /** @description Processes and threads. */
            max_procs: number | "unlimited";
            /** @description Bytes of results, displays and files, per execution. */
            max_result_bytes: number | "unlimited";
        };
        /** @description Limits to tighten. Each is a positive integer or `"unlimited"`. */
        LimitsSpec: {
            /** @description CPU cores, such as 0.5. */
            cpu_cores?: number | "unlimited";
            /** @description CPU time of one execution, in seconds. */
            max_cpu_secs?: number | "unlimited";
            /** @description Workdir and temporary files together, in MiB. */
            max_disk_mb?: number | "unlimited";
            /** @description Largest file, in MiB. */
            max_file_size_mb?: number | "unlimited";
            /** @description Files, directories and links together. */
            max_inodes?: number | "unlimited";
            /** @description Memory of the whole session, in MiB. */
            max_memory_mb?: number | "unlimited";
            /** @description Open file descriptors per process. */
            max_open_fds?: number | "unlimited";
            /** @description Bytes kept of each of stdout and stderr, per execution. */
            max_output_bytes?: number | "unlimited";
            /** @description Processes and threads. */
            max_procs?: number | "unlimited";
            /** @description Bytes of results, displays and files, per execution. */
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
        /** @description What an output says of its content. */
        Metadata: {
            /** @description Where the content is in the separate fields, and how large */
            vivarium: components["schemas"]["ContentInfo"];
        };
        /** @description What is left of the namespace after an execution: one of the lists. */
        NamesSpec: {
            /** @description All but these. */
            drop?: string[] | null;
            /** @description Of the names that it has bound, these alone; none of them if the list is empty. */
            keep?: string[] | null;
        };
        /** @description An output of a notebook's cell (nbformat 4.5). */
        NotebookOutput: {
            /**
             * @description Its name
             * @enum {string}
             */
            name: "stdout" | "stderr";
            /**
             * @description Which kind of output it is
             * @enum {string}
             */
            output_type: "stream";
            /** @description The text. */
            text: string;
        } | {
            /**
             * @description Representations by MIME type: JSON types as JSON, other text as it is, everything else
             *     in base64.
             */
            data: Record<string, never>;
            /** @description Where the content is in the separate fields, and how large. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Which kind of output it is
             * @enum {string}
             */
            output_type: "display_data";
        } | {
            /** @description Representations by MIME type, as in `display_data`. */
            data: Record<string, never>;
            /**
             * Format: int64
             * @description The number of the execution.
             */
            execution_count?: number | null;
            /** @description Where the content is in the separate fields, and how large. */
            metadata: components["schemas"]["Metadata"];
            /**
             * @description Which kind of output it is
             * @enum {string}
             */
            output_type: "execute_result";
        } | {
            /** @description Its class. */
            ename: string;
            /** @description Its message. */
            evalue: string;
            /**
             * @description Which kind of output it is
             * @enum {string}
             */
            output_type: "error";
            /** @description The lines of its traceback. */
            traceback: string[];
        };
        /** @description The outcome of an execution. */
        Outcome: {
            /** @description How often each audit event of Python was raised */
            audit_events?: {
                [key: string]: number;
            };
            /**
             * @description Why it ended so, if the status alone does not say; else null
             * @enum {string|null}
             */
            cause?: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "expired" | "suspended" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown" | "approval_denied" | "approval_timeout" | "work_limit" | null;
            /** @description The texts that `max_output_chars` has cut. */
            cuts?: components["schemas"]["TextCut"][];
            /** @description The evidence, in words; may be empty. */
            detail: string;
            /** @description Objects passed to `display()`, after updates and clearing. */
            displays: components["schemas"]["Display"][];
            /**
             * Format: double
             * @description Time from the code's start to its end, in milliseconds.
             */
            duration_ms: number;
            /** @description The uncaught exception; null if there was none */
            exception?: {
                /** @description The text of the exception */
                message: string;
                /** @description The traceback, as Python prints it */
                traceback: string;
                /** @description Name of the class */
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
            /** @description The kernel that it ran in; null if it was rejected before there was one */
            kernel?: components["schemas"]["KernelInfo"] | null;
            /**
             * @description All of this in order, as a notebook has it (nbformat 4.5); only if `answer.format` asks for
             *     it.
             */
            outputs?: components["schemas"]["NotebookOutput"][] | null;
            /**
             * @description The reprs of the values of each call of `print`, as far as its kernel keeps them; only with the
             *     policy `prints`.
             */
            prints?: string[][] | null;
            /** @description The value of the final expression; null if there was none */
            result?: components["schemas"]["ValueInfo"] | null;
            /** @description Whether the kernel was lost, and the session was rolled back to a checkpoint. */
            rolled_back?: boolean;
            /** @description Whether this request created the session. */
            session_created: boolean;
            /** @description The session's id */
            session_id: string;
            /**
             * @description The state: of an outcome, whether variables and modules survived
             * @enum {string}
             */
            state: "preserved" | "lost";
            /**
             * @description How it ended, or how far it is enforced
             * @enum {string}
             */
            status: "ok" | "error" | "timed_out" | "interrupted" | "killed" | "rejected";
            /** @description What was written to standard error; bytes that are not UTF-8 are replaced */
            stderr: string;
            /**
             * Format: int64
             * @description Size of stderr, as far as it is kept.
             */
            stderr_bytes?: number;
            /** @description Whether there was more than the limit. */
            stderr_truncated: boolean;
            /** @description What was written to standard output; bytes that are not UTF-8 are replaced */
            stdout: string;
            /**
             * Format: int64
             * @description Size of stdout, as far as it is kept.
             */
            stdout_bytes?: number;
            /** @description Whether there was more than the limit. */
            stdout_truncated: boolean;
            /** @description What it used */
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
            /** @description How the content is encoded; null if that depends on the content */
            format?: components["schemas"]["FileFormat"] | null;
            /** @description Guessed from the name, or else from the content. */
            mime_type: string;
            /** @description Path relative to the workdir. */
            name: string;
            /**
             * Format: int64
             * @description Size in bytes
             */
            size_bytes: number;
            /** @description Content as text. */
            text?: string | null;
        };
        /**
         * @description Which fields of an outcome have what code printed, showed, returned and raised.
         * @enum {string}
         */
        OutputFormat: "separate" | "notebook" | "both";
        /** @description A file to return after the code has run. */
        OutputSpec: {
            /** @description How the content is encoded; null if that depends on the content */
            format?: components["schemas"]["FileFormat"] | null;
            /** @description Path relative to the workdir. */
            name: string;
        };
        /** @description Since when new work is refused, and why. */
        PauseInfo: {
            /** @description For people; tenants see it too. */
            reason?: string | null;
            /**
             * Format: date-time
             * @description Since when
             */
            since: string;
        };
        /** @description What is paused now. */
        PauseReply: {
            /** @description Whether the daemon drains, so that it takes no new work until it is started again. */
            draining: boolean;
            /** @description Since when and why new work is refused; null if it is not */
            paused?: components["schemas"]["PauseInfo"] | null;
            /** @description The tenants that are paused by themselves */
            paused_tenants: {
                [key: string]: components["schemas"]["PauseInfo"];
            };
            /** @description Whether this is on disk, so that it outlasts a restart. */
            persistent: boolean;
        };
        /** @description Whom to pause or resume. */
        PauseRequest: {
            /**
             * @description At most 200 characters, for people. Tenants see it too. Without meaning for a resume.
             * @default null
             */
            reason: string | null;
            /**
             * @description A tenant; all if it is left out.
             * @default null
             */
            tenant: string | null;
        };
        /** @description One limit, time or quota that holds. */
        PolicyEntry: {
            /** @description The key of the configuration, as `sandbox.max_memory_mb`. */
            key: string;
            /** @description Where the value came from */
            source: components["schemas"]["PolicySource"];
            /** @description The value, as it is configured */
            value: number | string | string[];
        };
        /**
         * @description Where a value came from.
         * @enum {string}
         */
        PolicySource: "default" | "file" | "environment" | "command_line" | "tenant" | "request";
        /** @description Sessions kept ready for a tenant in an environment. */
        PoolInfo: {
            /** @description How many there are after that. */
            high: number;
            /** @description If fewer than this are left, more are started. */
            low: number;
            /** @description Ready now. */
            ready: number;
        };
        /**
         * @description A bundle of policies by one name.
         * @enum {string}
         */
        Preset: "compute" | "files" | "network" | "full";
        /** @description Where a browser sees a server in a session. */
        PreviewReply: {
            /**
             * Format: date-time
             * @description When the URL, and the cookie that it sets, stop working.
             */
            expires_at: string;
            /** @description Opens the preview, for whoever has it. */
            url: string;
        };
        /** @description Which server to show. */
        PreviewRequest: {
            /**
             * Format: int32
             * @description The port that the server listens on, on a loopback address.
             */
            port: number;
        };
        /** @description Why a kernel ended. */
        PreviousEnd: {
            /**
             * @description Why it ended so, if the status alone does not say; else null
             * @enum {string}
             */
            cause: "memory_limit" | "cpu_limit" | "pids_limit" | "disk_limit" | "wall_time" | "signal" | "exited" | "protocol" | "interrupt" | "reset" | "deleted" | "expired" | "suspended" | "draining" | "queue_full" | "kernel_start" | "agent" | "unknown" | "approval_denied" | "approval_timeout" | "work_limit";
            /** @description The evidence, in words. */
            detail: string;
        };
        /** @description Code, and a place in it. */
        ProbeRequest: {
            /** @description The code. */
            code: string;
            /** @description The context whose kernel is asked; `main` if not given. */
            context?: string | null;
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
            /** @description The quota that is used up, as `execution_rate`. */
            quota?: string | null;
            /** @description The scope that the token lacks */
            scope?: components["schemas"]["Scope"] | null;
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
        Progress: "queued" | "awaiting_approval" | "running" | "done";
        /** @description The size of a terminal, in characters. */
        PtySize: {
            /**
             * Format: int32
             * @description Characters in a row, 1 to 4096.
             */
            columns: number;
            /**
             * Format: int32
             * @description Rows, 1 to 4096.
             */
            rows: number;
        };
        /**
         * @description What is remembered of an approval, in the order of how much that is.
         * @enum {string}
         */
        Remember: "nothing" | "session" | "tenant";
        /** @description How far the repr of a value is written out. What is not given is as in IPython. */
        ReprSpec: {
            /**
             * Format: int64
             * @description The most characters. A note at the end says how many there are in all.
             */
            max_chars?: number | null;
            /**
             * Format: int64
             * @description The most containers inside each other. `[...]` stands for a deeper one.
             */
            max_depth?: number | null;
            /**
             * Format: int64
             * @description The most elements of each list, tuple, set, frozenset, dict or dict view; 1000 if not given.
             *     `...` stands for the others.
             */
            max_items?: number | null;
        };
        /** @description The result of a reset. */
        ResetReply: {
            /** @description The context whose kernel was replaced. */
            context: string;
            /** @description The execution that the reset ended there; null if nothing was running. */
            ended_execution_id?: string | null;
            /** @description How much was ended with the kernel. */
            scope: components["schemas"]["ResetScope"];
            /** @description The session's id */
            session_id: string;
        };
        /**
         * @description How much a reset has ended.
         * @enum {string}
         */
        ResetScope: "context" | "session";
        /** @description Where a session goes back to. */
        RollbackRequest: {
            /** @description The name of one of its checkpoints. */
            checkpoint: string;
        };
        /**
         * @description Code or a command to run in a session of its own, which ends with it: `code`, `argv` or
         *     `shell`.
         */
        RunRequest: {
            /** @description How the answer tells what came of it; in separate fields if not given */
            answer?: components["schemas"]["AnswerForm"] | null;
            /** @description What somebody has to allow first: no less than the rule that holds */
            approval?: components["schemas"]["ApprovalSpec"] | null;
            /** @description The program, looked for on PATH unless it has a slash, and its arguments. */
            argv?: string[] | null;
            /** @description Counts Python's audit events (PEP 578), and raises an error for those in `deny` */
            audit_events?: components["schemas"]["AuditEventsSpec"] | null;
            /** @description End it, and its session, when the client goes away. */
            cancel_on_disconnect?: boolean;
            /** @description The Python code */
            code?: string | null;
            /** @description The working directory, in the workdir; the workdir itself if not given. */
            cwd?: string | null;
            /** @description Whose values are shown: of the `last` expression if not given, of `all`, or `none` */
            echo?: components["schemas"]["Echo"] | null;
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
            /** @description Which modules code may import itself: `allow` or `deny` */
            imports?: components["schemas"]["ImportsSpec"] | null;
            /** @description Which part of a text longer than `max_output_chars` is kept. */
            keep?: components["schemas"]["Keep"];
            /** @description Limits of the session */
            limits?: components["schemas"]["LimitsSpec"] | null;
            /**
             * Format: int64
             * @description The most characters of each text that the answer tells: stdout, stderr, the result's and a
             *     display's plain text, an exception's message and traceback. Other text forms that are longer
             *     are left out.
             */
            max_output_chars?: number | null;
            /**
             * Format: int64
             * @description The most work, in ticks: backward jumps, function starts and generator resumes of its own
             *     code. Needs Python 3.12.
             */
            max_work?: number | null;
            /**
             * @description Modules that its code can import, and no other: objects of JSON by name, whose members are the
             *     module's names. At most 64, of 1 MiB together.
             */
            modules?: {
                [key: string]: Record<string, never>;
            };
            /**
             * @description What the session can reach: nothing (`none`), itself (`loopback`) or what the host can (`full`)
             * @enum {string}
             */
            network?: "none" | "loopback" | "trusted" | "full";
            /** @description Files to return. */
            outputs?: components["schemas"]["OutputSpec"][];
            /** @description Policies of the language by one name: what holds that the others do not say */
            policy?: components["schemas"]["Preset"] | null;
            /** @description Whether the answer has the values that were printed, in `prints`. */
            prints?: boolean | null;
            /** @description `repr()` of the value */
            repr?: components["schemas"]["ReprSpec"] | null;
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
            /**
             * @description Tool servers of the operator's whose tools its code can call: those that the tenant may have
             *     (`session.tool_servers`).
             */
            tool_servers?: string[];
            /** @description Functions of the client's that its code can call: `from vivarium import tools`. For code. At most 128. */
            tools?: components["schemas"]["ToolSpec"][];
            /** @description Whether the tools' names are put into the code's globals too. */
            tools_as_globals?: boolean;
        };
        /**
         * @description One of the things that a token may be for.
         * @enum {string}
         */
        Scope: "read" | "run" | "admin" | "approve";
        /** @description A session */
        SessionInfo: {
            /**
             * Format: date-time
             * @description When it was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the session ends, whatever it does; null if it may live for ever.
             */
            deadline?: string | null;
            /** @description Where it may connect to; absent unless its network is `trusted`. */
            egress_allow?: string[] | null;
            /** @description Name of the environment */
            environment: string;
            /**
             * Format: date-time
             * @description When the session is deleted unless it is used before.
             */
            expires_at: string;
            /**
             * @description Whose home it has at `/home/sandbox`
             * @enum {string}
             */
            home?: "off" | "session" | "tenant";
            /** @description Unique among the tenant's sessions */
            id: string;
            /**
             * Format: int64
             * @description Milliseconds without an execution or keepalive after which the session is reaped.
             */
            idle_timeout_ms: number;
            /** @description What there is of it on disk; absent unless it is suspended */
            image?: components["schemas"]["ImageInfo"] | null;
            /**
             * @description Whether the kernel was `forked` from the environment's template or `executed`; null before there is one. Both are confined alike
             * @enum {string|null}
             */
            kernel_origin?: "executed" | "forked" | "executed_for_packages" | null;
            /**
             * Format: date-time
             * @description Time of the last execution or keepalive.
             */
            last_used_at: string;
            /** @description Limits of the session */
            limits: components["schemas"]["LimitsInfo"];
            /** @description As the client gave it. */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description What the session can reach: nothing (`none`), itself (`loopback`) or what the host can (`full`)
             * @enum {string}
             */
            network: "none" | "loopback" | "trusted" | "full";
            /**
             * @description What holds for the session and its tenant, and where each value came from; only when one
             *     session is requested.
             */
            policy?: components["schemas"]["PolicyEntry"][];
            /** @description Every layer of the sandbox, as read back from inside */
            protection: {
                /** @description What happened, in words; may be empty */
                detail: string;
                /** @description What an operator can do about it; may be empty */
                fix: string;
                /** @description Name of the layer, such as `seccomp` */
                layer: string;
                /**
                 * @description How it ended, or how far it is enforced
                 * @enum {string}
                 */
                status: "enforced" | "partial" | "unavailable" | "off";
            }[];
            /** @description The ids of the executions that run now. */
            running: string[];
            /** @description The state: of an outcome, whether variables and modules survived */
            state: components["schemas"]["SessionState"];
            /** @description The tenant that owns it */
            tenant: string;
            /** @description What it used */
            usage: components["schemas"]["SessionUsage"];
            /** @description The volumes that it has. */
            volumes?: components["schemas"]["VolumeMount"][];
        };
        /** @description Part of a list of sessions, ordered by id. */
        SessionPage: {
            /** @description The `after` of the next part; null at the end. */
            next?: string | null;
            /** @description The sessions, ordered by id */
            sessions: components["schemas"]["SessionInfo"][];
        };
        /**
         * @description What to change of a session: a JSON merge patch (RFC 7396). Fields that are not given stay as they
         *     are.
         */
        SessionPatch: {
            /**
             * Format: date-time
             * @description When the session ends, whatever it does: a time to come, no later than the configured
             *     `session.max_lifetime` after its creation. Null is that latest time, or none.
             * @default null
             */
            deadline: string | null;
            /**
             * Format: int64
             * @description Milliseconds without an execution or keepalive after which the session is reaped, no more
             *     than the configured time. Null is the configured time.
             * @default null
             */
            idle_timeout_ms: number | null;
            /**
             * @description Limits of the session
             * @default null
             */
            limits: components["schemas"]["LimitsSpec"] | null;
            /** @description Keys to set, or to remove where the value is null. Null in place of the object removes all. */
            metadata?: {
                [key: string]: string | null;
            } | null;
        };
        /** @description A session to create. */
        SessionSpec: {
            /** @description What somebody has to allow first: no less than the rule that holds */
            approval?: components["schemas"]["ApprovalSpec"] | null;
            /** @description Counts Python's audit events (PEP 578), and raises an error for those in `deny` */
            audit_events?: components["schemas"]["AuditEventsSpec"] | null;
            /**
             * @description Whether calls resume the session where it is suspended, as they do by default; else they get 409
             *     `suspended`, and `POST …/resume` or a rollback resumes it.
             * @default true
             */
            auto_resume: boolean | null;
            /**
             * @description Whether code that loses its kernel has the session roll back to its last checkpoint, before it is
             *     answered.
             * @default false
             */
            auto_rollback: boolean | null;
            /**
             * @description Which checkpoints it has, as `images.checkpoint` says if not given
             * @enum {string}
             */
            checkpoint?: "off" | "named" | "each";
            /**
             * Format: date-time
             * @description When the session ends, whatever it does: a time to come, no later than the configured
             *     `session.max_lifetime` from now.
             */
            deadline?: string | null;
            /** @description Whose values are shown: of the `last` expression if not given, of `all`, or `none` */
            echo?: components["schemas"]["Echo"] | null;
            /**
             * @description Where a session of network `trusted` may connect to, within what the operator allows and in
             *     its place: `HOST`, `HOST:PORT`, `*.DOMAIN`.
             */
            egress_allow?: string[] | null;
            /** @description Variables for the kernel. */
            env?: {
                [key: string]: string;
            };
            /** @description Name of an environment, built or configured; `default` if not given. The tenant's own come first. */
            environment?: string | null;
            /**
             * @description Distributions of the environment that its code does not find, by their names: their files are
             *     not in the session at all. Besides those that the environment hides.
             */
            hidden?: string[];
            /**
             * @description Whose home it has at `/home/sandbox`
             * @enum {string}
             */
            home?: "off" | "session" | "tenant";
            /** @description 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given. */
            id?: string | null;
            /**
             * Format: int64
             * @description Milliseconds without an execution or keepalive after which the session is reaped. No
             *     longer than the configured time.
             */
            idle_timeout_ms?: number | null;
            /** @description Which modules code may import itself: `allow` or `deny` */
            imports?: components["schemas"]["ImportsSpec"] | null;
            /** @description Limits of the session */
            limits?: components["schemas"]["LimitsSpec"] | null;
            /**
             * Format: int64
             * @description The most work of each execution, in ticks: backward jumps, function starts and generator resumes of its own
             *     code. Needs Python 3.12.
             */
            max_work?: number | null;
            /** @description Strings that the session's description shows, for the client's own use. */
            metadata?: {
                [key: string]: string;
            };
            /**
             * @description What the session can reach: nothing (`none`), itself (`loopback`) or what the host can (`full`)
             * @enum {string}
             */
            network?: "none" | "loopback" | "trusted" | "full";
            /** @description Policies of the language by one name: what holds that the others do not say */
            policy?: components["schemas"]["Preset"] | null;
            /** @description Whether the answer has the values that were printed, in `prints`. */
            prints?: boolean | null;
            /**
             * @description Tool servers of the operator's whose tools its code can call: those that the tenant may have
             *     (`session.tool_servers`).
             */
            tool_servers?: string[];
            /** @description Functions of the client's that code of all its executions can call. At most 128. */
            tools?: components["schemas"]["ToolSpec"][];
            /** @description Whether the tools' names are put into the code's globals too. */
            tools_as_globals?: boolean;
            /** @description Volumes of the tenant that it can reach, at most 16. */
            volumes?: components["schemas"]["VolumeMount"][];
        };
        /**
         * @description What a session is doing
         * @enum {string}
         */
        SessionState: "starting" | "idle" | "running" | "interrupting" | "replacing" | "suspended" | "closed";
        /** @description What a session has used so far */
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
             * @description Bytes that came through the egress gate, of connections that have ended; absent unless the
             *     network is `trusted`.
             */
            egress_in_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes that went out through it.
             */
            egress_out_bytes?: number | null;
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
        /** @description A signal for a command. */
        SignalRequest: {
            /** @description Its name, as in signal(7): `SIGTERM`. `SIGKILL` also ends what the command has started. */
            signal: string;
        };
        /** @description `started`: the execution begins. */
        StartedEvent: {
            /** @description Unique within the session. */
            execution_id: string;
            /** @description The session's id */
            session_id: string;
        };
        /** @description What was written to a command's standard input. */
        StdinReply: {
            /** @description Whether it was closed after them. */
            closed: boolean;
            /**
             * Format: int64
             * @description How many bytes of the body.
             */
            written_bytes: number;
        };
        /** @description What a home or volume takes of the disk. */
        StorageInfo: {
            /**
             * Format: date-time
             * @description When it was created
             */
            created_at: string;
            /** @description Whether a session has it now. */
            in_use: boolean;
            /**
             * Format: date-time
             * @description When a session last had it.
             */
            last_used_at: string;
            /**
             * Format: int64
             * @description Null is no maximum.
             */
            max_bytes?: number | null;
            /**
             * Format: int64
             * @description Files, directories and links together.
             */
            max_inodes?: number | null;
            /**
             * Format: int64
             * @description As last measured; null if it was not yet.
             */
            used_bytes?: number | null;
            /**
             * Format: int64
             * @description Files, directories and links, as last measured.
             */
            used_inodes?: number | null;
        };
        /** @description The image of a suspended session, by itself. */
        StoredImage: components["schemas"]["ImageInfo"] & {
            /** @description Name of the environment */
            environment: string;
            /**
             * Format: int64
             * @description The number of the session's last execution.
             */
            executions: number;
            /** @description The suspended session's id. */
            session_id: string;
            /**
             * @description SHA-256 of the memory of the template that the session was suspended under, in hexadecimal. It resumes
             *     under any that was built of the same.
             */
            template: string;
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
            /** @description Its name */
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
            /** @description The tenants, ordered by name */
            tenants: components["schemas"]["TenantInfo"][];
        };
        /** @description Tenants from elsewhere, when they were last read. */
        TenantSourcesInfo: {
            /** @description What is wrong, with file and line. */
            error?: string | null;
            /**
             * Format: date-time
             * @description When they were last read.
             */
            read_at: string;
            /** @description `ok`, or `failing`: the tenants that there are stay, and it is tried again. */
            state: string;
        };
        /** @description A text that an answer has only in part, or not at all. */
        TextCut: {
            /**
             * Format: int64
             * @description Characters that are left out. A representation other than plain text is left out as a whole.
             */
            dropped_chars: number;
            /**
             * Format: int64
             * @description Characters that are left of it.
             */
            kept_chars: number;
            /**
             * @description The representation of a result or display that was cut; null for a result's `repr`, and for
             *     what has no representations.
             */
            mime_type?: string | null;
            /**
             * @description `stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from 0,
             *     `displays/0`.
             */
            part: string;
        };
        /** @description A token as it is configured. The token itself is known to nobody here. */
        TokenInfo: {
            /** @description Whether it is refused */
            expired: boolean;
            /**
             * Format: date-time
             * @description When it is refused from; null if never
             */
            expires?: string | null;
            /** @description The first digits of its hash. */
            hash_prefix: string;
            /** @description Its name */
            name?: string | null;
            /** @description What it may do */
            scopes: components["schemas"]["Scope"][];
        };
        /** @description A function of the client's that code can call: `from vivarium import tools; tools.NAME(…)`. */
        ToolSpec: {
            /** @description What it does: its docstring in the session. */
            description?: string | null;
            /**
             * Format: int64
             * @description The most calls of it in one execution; the configured number if not given.
             */
            max_calls?: number | null;
            /** @description ASCII letters, digits and underscores, of which the first is a letter. No keyword of Python. */
            name: string;
            /**
             * @description JSON Schema of its arguments, an object; any object if not given. Positional arguments are taken in the order
             *     of its `properties`.
             */
            parameters?: Record<string, never> | null;
            /**
             * Format: int64
             * @description Milliseconds in which a call has to be answered; the configured time if not given.
             */
            timeout_ms?: number | null;
        };
        /** @description What tenants used. */
        UsageReport: {
            /**
             * Format: date-time
             * @description The beginning
             */
            from: string;
            /** @description In order of time and then of name; a tenant that used nothing in a period has no row there. */
            rows: components["schemas"]["UsageRow"][];
            /**
             * Format: date-time
             * @description The end
             */
            to: string;
        };
        /** @description What a tenant used in a period. */
        UsageRow: {
            /**
             * Format: double
             * @description CPU time
             */
            cpu_seconds: number;
            /** @description How CPU time was measured; null if it was not */
            cpu_source?: components["schemas"]["UsageSource"] | null;
            /**
             * Format: int64
             * @description Bytes through the egress gate, both ways.
             */
            egress_bytes: number;
            /**
             * Format: date-time
             * @description The end of the period
             */
            end: string;
            /**
             * Format: int64
             * @description Executions that ran.
             */
            executions: number;
            /**
             * Format: int64
             * @description Memory times time, in bytes times seconds.
             */
            memory_byte_seconds: number;
            /** @description How memory was measured; null if it was not */
            memory_source?: components["schemas"]["UsageSource"] | null;
            /**
             * Format: int64
             * @description Sessions that were made.
             */
            sessions: number;
            /**
             * Format: date-time
             * @description The beginning of the period
             */
            start: string;
            /** @description The tenant that owns it */
            tenant: string;
        };
        /**
         * @description How a figure is measured: from the tenant's cgroup, which knows of every process; from what
         *     executions report (for memory their peak, for as long as they ran); or from one and then the other.
         * @enum {string}
         */
        UsageSource: "cgroup" | "executions" | "mixed";
        /** @description The value of a final expression */
        ValueInfo: {
            /** @description Representations by MIME type: text as it is, everything else in base64 */
            mime: {
                [key: string]: string;
            };
            /** @description `repr()` of the value */
            repr: string;
            /**
             * Format: int64
             * @description Size of the repr.
             */
            size_bytes?: number;
            /** @description Size of each representation by MIME type, decoded, in bytes */
            sizes?: {
                [key: string]: number;
            };
            /** @description Name of the class. */
            type: string;
        };
        /** @description A variable. */
        Variable: {
            /** @description Its name */
            name: string;
            /** @description The name of its type, with its module unless that is `builtins` or `__main__`. */
            type: string;
        };
        /** @description A volume. */
        VolumeInfo: {
            /** @description Its name */
            name: string;
            /** @description What it takes of the disk */
            storage: components["schemas"]["StorageInfo"];
        };
        /** @description The tenant's volumes. */
        VolumeList: {
            /** @description Volumes, by their names */
            volumes: components["schemas"]["VolumeInfo"][];
        };
        /** @description A volume that a session is to have. */
        VolumeMount: {
            /** @description Its name. */
            name: string;
            /** @description Where it appears, beneath `/mnt`; `/mnt/NAME` if not given. */
            path?: string | null;
            /** @description Whether the session can only read it. One session at a time can write to it. */
            read_only?: boolean;
        };
        /** @description A volume to make. */
        VolumeSpec: {
            /** @description 1 to 64 of `A-Z a-z 0-9 _ -`. */
            name: string;
        };
        /** @description What an execution that is run in rounds waits for. */
        WaitingReply: {
            /** @description In the order in which they were made. */
            calls: components["schemas"]["CallInfo"][];
            /** @description Unique within the session */
            execution_id: string;
            /** @description The session's id */
            session_id: string;
            /** @description `waiting`: to be answered, and continued. */
            status: components["schemas"]["WaitingStatus"];
        };
        /**
         * @description That an execution is not over.
         * @enum {string}
         */
        WaitingStatus: "waiting";
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
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
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
    admin_collect: {
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
                    "application/json": components["schemas"]["CollectReply"];
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
    admin_drain: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "exit": true
                 *     }
                 */
                "application/json": components["schemas"]["DrainRequest"] | null;
            };
        };
        responses: {
            /** @description The drain has begun */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DrainReply"];
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
    admin_list_environments: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
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
                    "application/json": components["schemas"]["BuiltEnvironmentList"];
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
    admin_build_environment: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "analysis",
                 *       "requirements": "pandas==2.2.3\n"
                 *     }
                 */
                "application/json": components["schemas"]["BuildRequest"];
            };
        };
        responses: {
            /** @description The build has begun */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BuildInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            409: {
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
    admin_show_environment: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
            };
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
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
                    "application/json": components["schemas"]["BuiltEnvironmentInfo"];
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
    admin_remove_environment: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
            };
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
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
    admin_show_build: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
            };
            header?: {
                /** @description The last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description Name of the environment */
                name: string;
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
                    "application/json": components["schemas"]["BuildInfo"];
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
    admin_read_build_log: {
        parameters: {
            query?: {
                /** @description The tenant; the operator's own, which are for all, if not given. */
                tenant?: string;
            };
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The log */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
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
    admin_pause: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "maintenance until noon",
                 *       "tenant": "team"
                 *     }
                 */
                "application/json": components["schemas"]["PauseRequest"] | null;
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseReply"];
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
    admin_resume: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "maintenance until noon",
                 *       "tenant": "team"
                 *     }
                 */
                "application/json": components["schemas"]["PauseRequest"] | null;
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseReply"];
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
    admin_status: {
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
                    "application/json": components["schemas"]["AdminStatus"];
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
    admin_tenants: {
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
                    "application/json": components["schemas"]["AdminTenantList"];
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
    admin_usage: {
        parameters: {
            query?: {
                /** @description The beginning, by default 30 days ago. The hour that it is in counts. */
                from?: string;
                /** @description The end, by default now. The hour that it is in counts. */
                to?: string;
                /** @description What is added up in a row: `hour`, `day` (the default), `month` (UTC) or `total` */
                period?: "hour" | "day" | "month" | "total";
                /** @description Only of this tenant. */
                tenant?: string;
                /** @description `json` or `csv` */
                format?: "json" | "csv";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The report */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageReport"];
                    "text/csv": string;
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
    list_approvals: {
        parameters: {
            query?: {
                /** @description Those of this state alone; `pending` if not given. */
                state?: components["schemas"]["ApprovalState"];
                /** @description Those of every state, of the last minutes. */
                all?: boolean;
                /** @description The most in one part, from 1 to 1000. */
                limit?: number;
                /** @description The `next` of the part before. */
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
                    "application/json": components["schemas"]["ApprovalPage"];
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
    show_approval: {
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
                    "application/json": components["schemas"]["ApprovalInfo"];
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
    decide_approval: {
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
                /**
                 * @example {
                 *       "decision": "allow",
                 *       "remember": "session"
                 *     }
                 */
                "application/json": components["schemas"]["DecideRequest"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApprovalInfo"];
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
    list_environments: {
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
                    "application/json": components["schemas"]["BuiltEnvironmentList"];
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
    build_environment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "analysis",
                 *       "requirements": "pandas==2.2.3\n"
                 *     }
                 */
                "application/json": components["schemas"]["BuildRequest"];
            };
        };
        responses: {
            /** @description The build has begun */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BuildInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request failed; `code` says why */
            409: {
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
    show_environment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
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
                    "application/json": components["schemas"]["BuiltEnvironmentInfo"];
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
    remove_environment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
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
    show_build: {
        parameters: {
            query?: never;
            header?: {
                /** @description The last event that was read. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description Name of the environment */
                name: string;
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
                    "application/json": components["schemas"]["BuildInfo"];
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
    read_build_log: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the environment */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The log */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
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
    list_homes: {
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
                    "application/json": components["schemas"]["HomeList"];
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
    show_home: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of its sessions, or `@tenant` */
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
                    "application/json": components["schemas"]["HomeInfo"];
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
    delete_home: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of its sessions, or `@tenant` */
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
            409: {
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
    list_home_files: {
        parameters: {
            query?: {
                /** @description A directory, relative to the workdir or absolute; the workdir if not given. */
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
                /** @description The id of its sessions, or `@tenant` */
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
    read_home_file: {
        parameters: {
            query?: {
                /** @description Whether to describe what is at the path, a link not followed, instead of sending its content. */
                info?: boolean;
            };
            header?: never;
            path: {
                /** @description The id of its sessions, or `@tenant` */
                id: string;
                /** @description Relative to it */
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
                    "application/octet-stream": number[];
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
    delete_home_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of its sessions, or `@tenant` */
                id: string;
                /** @description Relative to it */
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
    list_images: {
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
                    "application/json": components["schemas"]["ImagePage"];
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
    import_image: {
        parameters: {
            query?: {
                /** @description The new session's id. Without it, the id that the session had where it was exported. */
                id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description An image as it was exported; of any media type */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Made */
            201: {
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
    show_image: {
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
                    "application/json": components["schemas"]["StoredImage"];
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
    delete_image: {
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
    export_image: {
        parameters: {
            query?: {
                /** @description The name of one of its checkpoints. Without it, the image of the suspended session. */
                checkpoint?: string;
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
            /** @description The image, encrypted, for hosts that have the same key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": number[];
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
                /**
                 * @example {
                 *       "code": "open('out.csv', 'w').write('a,b')",
                 *       "network": "none",
                 *       "outputs": [
                 *         {
                 *           "format": "text",
                 *           "name": "out.csv"
                 *         }
                 *       ]
                 *     }
                 */
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
                /** @description Only sessions in this state. Given several times: in one of these states. */
                state?: components["schemas"]["SessionState"][];
                /**
                 * @description Only sessions whose metadata has this value under this key: `metadata[KEY]=VALUE`. Given
                 *     several times: those that have all of them.
                 */
                metadata?: {
                    [key: string]: string;
                };
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
                /**
                 * @example {
                 *       "id": "analysis-1",
                 *       "limits": {
                 *         "max_memory_mb": 512
                 *       },
                 *       "metadata": {
                 *         "title": "Sales"
                 *       }
                 *     }
                 */
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
    change_session: {
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
                /**
                 * @example {
                 *       "metadata": {
                 *         "draft": null,
                 *         "title": "Sales"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["SessionPatch"];
                /**
                 * @example {
                 *       "metadata": {
                 *         "draft": null,
                 *         "title": "Sales"
                 *       }
                 *     }
                 */
                "application/merge-patch+json": components["schemas"]["SessionPatch"];
            };
        };
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
    branch_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "count": 3
                 *     }
                 */
                "application/json": components["schemas"]["BranchRequest"] | null;
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BranchReply"];
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
    list_checkpoints: {
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
                    "application/json": components["schemas"]["CheckpointList"];
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
    make_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "name": "before-cleaning"
                 *     }
                 */
                "application/json": components["schemas"]["CheckpointRequest"] | null;
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Checkpoint"];
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
    delete_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Name of the checkpoint */
                name: string;
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
    diff_checkpoints: {
        parameters: {
            query?: {
                /** @description The name of another of the session's checkpoints. Without it, the one before. */
                from?: string;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Name of the checkpoint */
                name: string;
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
                    "application/json": components["schemas"]["CheckpointDiff"];
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
                /**
                 * @example {
                 *       "argv": [
                 *         "wc",
                 *         "-l",
                 *         "a.txt"
                 *       ],
                 *       "files": [
                 *         {
                 *           "name": "a.txt",
                 *           "text": "one\ntwo\n"
                 *         }
                 *       ],
                 *       "timeout_ms": 10000
                 *     }
                 */
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
            /** @description It runs, or will, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackgroundReply"];
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
                /**
                 * @example {
                 *       "code": "import os\nos.path.ex",
                 *       "cursor": 20
                 *     }
                 */
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
    list_contexts: {
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
                    "application/json": components["schemas"]["ContextList"];
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
    open_context: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "id": "scratch"
                 *     }
                 */
                "application/json": components["schemas"]["ContextSpec"] | null;
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContextInfo"];
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
    show_context: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the context; `main` is the one that every session has */
                context: string;
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
                    "application/json": components["schemas"]["ContextInfo"];
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
    delete_context: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the context; `main` is the one that every session has */
                context: string;
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
    interrupt_context: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the context; `main` is the one that every session has */
                context: string;
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
    reset_context: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the context; `main` is the one that every session has */
                context: string;
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
                /**
                 * @example {
                 *       "answer": {
                 *         "format": "notebook"
                 *       },
                 *       "code": "print('hello')\n6 * 7",
                 *       "imports": {
                 *         "allow": [
                 *           "math",
                 *           "json"
                 *         ]
                 *       },
                 *       "keep": "both",
                 *       "max_output_chars": 20000,
                 *       "prints": true,
                 *       "timeout_ms": 10000
                 *     }
                 */
                "application/json": components["schemas"]["ExecuteRequest"];
            };
        };
        responses: {
            /** @description What became of it, its events as they happen, or the calls that it waits for */
            200: {
                headers: {
                    /** @description An earlier request with the same Idempotency-Key was carried out. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"] | components["schemas"]["WaitingReply"];
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
    list_executions: {
        parameters: {
            query?: {
                /** @description At most this many, 1 to 1000. */
                limit?: number;
                /** @description The `next` of the previous part. */
                after?: string;
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
                    "application/json": components["schemas"]["ExecutionPage"];
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
            query?: {
                /**
                 * @description The most characters of each text: stdout, stderr, the result's and a display's plain text, an
                 *     exception's message and traceback. Other text forms that are longer are left out.
                 */
                max_output_chars?: number;
                /** @description Which part of a text longer than `max_output_chars` is kept. */
                keep?: "head" | "tail" | "both";
                /**
                 * @description Which fields have what code printed, showed, returned and raised: `separate` ones, or
                 *     `outputs`, in order as a `notebook` has them, or `both`.
                 */
                format?: "separate" | "notebook" | "both";
                /**
                 * @description `full`, or `sizes` without the content of printed text, the value, displays, images and
                 *     frames. A stream of events has printed text all the same.
                 */
                content?: "full" | "sizes";
            };
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
    list_calls: {
        parameters: {
            query?: never;
            header?: never;
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CallList"];
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
    answer_call: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
                /** @description Id of the call */
                call_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "result": [
                 *         {
                 *           "id": 1,
                 *           "name": "Ada"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CallAnswer"];
            };
        };
        responses: {
            /** @description The code has it */
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
    continue_execution: {
        parameters: {
            query?: {
                /**
                 * @description The most characters of each text: stdout, stderr, the result's and a display's plain text, an
                 *     exception's message and traceback. Other text forms that are longer are left out.
                 */
                max_output_chars?: number;
                /** @description Which part of a text longer than `max_output_chars` is kept. */
                keep?: "head" | "tail" | "both";
                /**
                 * @description Which fields have what code printed, showed, returned and raised: `separate` ones, or
                 *     `outputs`, in order as a `notebook` has them, or `both`.
                 */
                format?: "separate" | "notebook" | "both";
                /**
                 * @description `full`, or `sizes` without the content of printed text, the value, displays, images and
                 *     frames. A stream of events has printed text all the same.
                 */
                content?: "full" | "sizes";
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "answers": {
                 *         "1": {
                 *           "result": "done"
                 *         }
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ContinueRequest"];
            };
        };
        responses: {
            /** @description What became of it, or the calls that it waits for */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"] | components["schemas"]["WaitingReply"];
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
    output: {
        parameters: {
            query?: {
                /** @description Which representation, as `image/png`; by default plain text, or the only one. */
                mime_type?: string;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
                /** @description `stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from 0, `displays/0`, `images/0`, `video_frames/0`, `files/0` */
                part: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The content, decoded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": number[];
                };
            };
            /** @description There is no such execution, part or representation */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The execution is not over */
            409: {
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
    resize_pty: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "columns": 100,
                 *       "rows": 30
                 *     }
                 */
                "application/json": components["schemas"]["PtySize"];
            };
        };
        responses: {
            /** @description It was resized */
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
    signal_execution: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "signal": "SIGTERM"
                 *     }
                 */
                "application/json": components["schemas"]["SignalRequest"];
            };
        };
        responses: {
            /** @description It was sent */
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
    write_stdin: {
        parameters: {
            query?: {
                /** @description Close it after the body: the command reads the end. */
                close?: boolean;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Id of the execution */
                execution_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StdinReply"];
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
                /** @description A directory, relative to the workdir or absolute; the workdir if not given. */
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
                /** @description Whether to make a directory. There is no body then. */
                directory?: boolean;
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
            query?: {
                /** @description Whether to describe what is at the path, a link not followed, instead of sending its content. */
                info?: boolean;
            };
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
                /** @description Relative to the workdir, or absolute */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The content, or its description */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                    "*/*": number[];
                    "application/x-tar": number[];
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
                /** @description Whether to make a directory. There is no body then. */
                directory?: boolean;
            };
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Relative to the workdir, or absolute */
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
                /** @description Relative to the workdir, or absolute */
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
    change_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description Relative to the workdir, or absolute */
                path: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "mode": "0644",
                 *       "move_to": "data/out.csv"
                 *     }
                 */
                "application/json": components["schemas"]["FileChange"];
            };
        };
        responses: {
            /** @description What it is now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            409: {
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
    session_imageable: {
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
                    "application/json": components["schemas"]["ImageableReply"];
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
                /**
                 * @example {
                 *       "code": "import os\nos.path.ex",
                 *       "cursor": 20
                 *     }
                 */
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
                /**
                 * @example {
                 *       "code": "for i in range(3):"
                 *     }
                 */
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
    request_port: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the session */
                id: string;
                /** @description 1 to 65535 */
                port: string;
                /** @description What the server is asked for */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has no ports of its own */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing listens, or it does not speak HTTP */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server's answer */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
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
    create_preview: {
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
                /**
                 * @example {
                 *       "port": 8000
                 *     }
                 */
                "application/json": components["schemas"]["PreviewRequest"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewReply"];
                };
            };
            /** @description The session has no ports of its own, or the daemon shows no previews */
            409: {
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
    resume_session: {
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
    roll_back_session: {
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
                /**
                 * @example {
                 *       "checkpoint": "before-cleaning"
                 *     }
                 */
                "application/json": components["schemas"]["RollbackRequest"];
            };
        };
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
    suspend_session: {
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
    watch_files: {
        parameters: {
            query?: {
                /** @description A directory, relative to the workdir or absolute; the workdir if not given. */
                path?: string;
                /** @description Whether to include directories below it. */
                recursive?: boolean;
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
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description A FileEventInfo as JSON; `{}` for `ready` and `overflow`. */
                        data: string;
                        /**
                         * @description `ready` first, then `created`, `modified`, `deleted` and `moved`, and `overflow` when events were
                         *     lost.
                         */
                        event: string;
                    };
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
    list_volumes: {
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
                    "application/json": components["schemas"]["VolumeList"];
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
    make_volume: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "datasets"
                 *     }
                 */
                "application/json": components["schemas"]["VolumeSpec"];
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeInfo"];
                };
            };
            /** @description The request failed; `code` says why */
            409: {
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
    show_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the volume */
                name: string;
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
                    "application/json": components["schemas"]["VolumeInfo"];
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
    delete_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the volume */
                name: string;
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
            409: {
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
    list_volume_files: {
        parameters: {
            query?: {
                /** @description A directory, relative to the workdir or absolute; the workdir if not given. */
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
                /** @description Name of the volume */
                name: string;
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
    read_volume_file: {
        parameters: {
            query?: {
                /** @description Whether to describe what is at the path, a link not followed, instead of sending its content. */
                info?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the volume */
                name: string;
                /** @description Relative to it */
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
                    "application/octet-stream": number[];
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
    delete_volume_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the volume */
                name: string;
                /** @description Relative to it */
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
}
