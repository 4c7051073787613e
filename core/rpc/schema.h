/* SPDX-License-Identifier: MIT */
/* clang-format off */
/*
 * What travels: shapes shared by server, client, commands and console. Times are RFC 3339
 * UTC with ms. Every text in here is untrusted unless it is one of our own words.
 *
 * hello {proto: 1, client: {name, version}, want: "agent"|"operator"|"observer", runId?}
 *   -> {proto, version, role, instance, pid, paths: {config, state, runtime, cache},
 *       configSha256, policySha256, policyDistrusted, armMs, serverTime, provider: {name,
 *       version, endpoint, available, whyNot, remedy, enforced: [..], notEnforced: [..]}}
 * ping {} -> {}     bye {} -> {}: the server closes the connection then
 *
 * request.submit {kind, session?, profile?, callId?, body, waitMs?, noWait?, purpose?}
 *   body of run_code {code, language, timeoutMs?}; of exec {command, args?, cwd?, env?,
 *   timeoutMs?, input?}. code, input: text or {base64}. Two pipes may come by SCM_RIGHTS:
 *   stdout and stderr of the program, exact bytes; exec is lossless (the program waits for
 *   a slow reader), run_code is cut at maxOutputBytes and never waits.
 *   -> {approvalId, rev, sha256, state, expiresAt, session, reason, result?}: at the final
 *      state, or after waitMs (0 = at once when pending; at most 24 h)
 * request.wait {approvalId, sha256, waitMs?} -> the same
 * request.cancel {approvalId, sha256} -> {state}
 *   result: {status, started, stdout, stderr, exitCode, signal, durationMs, waitedMs,
 *   timedOut, aborted, oom, leftover, reset, stdoutTruncated, stderrTruncated, stdoutBytes,
 *   stderrBytes, untrusted: true, approvalId, sha256, reason, session}. status = the state;
 *   stdout, stderr: text, or {base64} when not UTF-8, absent when pipes were passed;
 *   exitCode null when it did not run.
 *
 * approval.list {all?: bool} -> [row]
 *   row: {id, rev, sha256, ruleSha256, kind, session, profile, language, state, attached, seen,
 *   waiting, high, hazards: [name], lines, bytes, firstLine, purpose, client, uid, pid,
 *   exe, requestedAt, expiresAt, timeoutMs, leftMs, rule?, decision?, decidedBy?, reason?,
 *   startedAt?, finishedAt?, exitCode?}
 * approval.get {id}
 *   -> row + {bound: [{name, base64}], notes: [{hazard, field, line}], spec, specSha256,
 *      instance, argv: [..], cwd, policy: {decision, rule, downgraded}, earlierRuns,
 *      changedOutside, notEnforced: [..], deniedBefore, result?}
 *   ruleSha256 is the hash without the session: what a rule's `hash` names.
 *   sha256 must equal the hash of `bound` (core/client/review.h checks it before anything
 *   is shown).
 * approval.seen {id} -> {}
 * approval.decide {id, rev?, sha256, decision: "approve"|"deny", scope?: "once", reason?,
 *                  note?, ackHazards?: [name], viewedTo?}
 *   -> {id, rev, state}, when it is durable
 * approval.extend {id, rev?, byMs} -> row
 * approval.forget {} -> {forgotten}
 *
 * session.list {} -> [session row]
 *   session row: {id, state, instance, runId, owner, profile, provider, image, imageId,
 *   network, name, createdAt, startedAt, usedAt, idleMs, once, fresh, changedOutside,
 *   running, calls, pending, notEnforced: [..], spec}
 * session.get {session} -> session row
 * session.create {id?, profile?} -> session row
 * session.close {session} | {all: true} -> {closed}
 *
 * policy.get {} -> {rules, sha256, distrusted}
 * policy.reload {} -> the same
 * audit.tail {n?} -> [record]
 * server.status {}
 *   -> {pid, version, uptimeMs, sessions, pending, running, clients, provider, paths,
 *       rssBytes}
 * server.stop {force?} -> {}: refused while requests are pending or running, unless forced
 *
 * events.subscribe {topics: ["approval","session","server","policy"], sinceSeq?} -> {seq}
 *   then notifications `event` {seq, topic, type, data}. approval: data = row; types
 *   "changed", "final", "progress" {id, text, done, total}. session: data = session row;
 *   types "changed", "closed". policy: "changed". server: "stopping";
 *   "provider" (hello's provider, once it was tried; its `available` is null until then);
 *   "lost" {from, to} when the ring was too short.
 */
/* clang-format on */
#pragma once
