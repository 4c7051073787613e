/* SPDX-License-Identifier: MIT */
/* The headless commands, in the order help shows them. */
#include <stddef.h>

#include "core/cli/commands.h"

const struct bg_cmd *const bg_cli_cmds[] = {
    &cmd_init,
    &cmd_run,
    &cmd_exec,
    &cmd_pending,
    &cmd_show,
    &cmd_approve,
    &cmd_deny,
    &cmd_sessions,
    &cmd_session_create,
    &cmd_session_show,
    &cmd_session_rm,
    &cmd_server,
    &cmd_server_status,
    &cmd_server_stop,
    &cmd_audit_tail,
    &cmd_audit_verify,
    &cmd_audit_export,
    &cmd_policy_check,
    &cmd_policy_explain,
    &cmd_forget_deny,
    &cmd_config_show,
    &cmd_sweep,
    &cmd_doctor,
    &cmd_themes,
    NULL,
};
