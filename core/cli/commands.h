/* SPDX-License-Identifier: MIT */
/* One command each; the rows of table.c. */
#pragma once

#include "core/cli/cmd.h"

extern const struct bg_cmd cmd_init;
extern const struct bg_cmd cmd_run;
extern const struct bg_cmd cmd_exec;
extern const struct bg_cmd cmd_pending;
extern const struct bg_cmd cmd_show;
extern const struct bg_cmd cmd_approve;
extern const struct bg_cmd cmd_deny;
extern const struct bg_cmd cmd_sessions;
extern const struct bg_cmd cmd_session_create;
extern const struct bg_cmd cmd_session_show;
extern const struct bg_cmd cmd_session_rm;
extern const struct bg_cmd cmd_server;
extern const struct bg_cmd cmd_server_status;
extern const struct bg_cmd cmd_server_stop;
extern const struct bg_cmd cmd_audit_tail;
extern const struct bg_cmd cmd_audit_verify;
extern const struct bg_cmd cmd_audit_export;
extern const struct bg_cmd cmd_policy_check;
extern const struct bg_cmd cmd_policy_explain;
extern const struct bg_cmd cmd_forget_deny;
extern const struct bg_cmd cmd_config_show;
extern const struct bg_cmd cmd_sweep;
extern const struct bg_cmd cmd_doctor;
extern const struct bg_cmd cmd_themes;
