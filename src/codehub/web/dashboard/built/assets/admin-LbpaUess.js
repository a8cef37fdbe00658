import{$ as e,F as t,G as n,H as r,I as i,J as a,R as o,W as s,_t as c,a as l,at as u,bt as d,d as f,dt as p,f as m,i as h,l as g,m as _,n as v,nt as y,o as b,p as x,pt as S,q as C,r as w,s as T,st as E,u as D,ut as O,vt as ee,yt as te,z as k}from"./toasts-C5_Sw4km.js";import{i as A,n as j,o as M,r as ne,t as re}from"./index-CCCicrE7.js";var N=d(),P=e(),ie=[`found`,`bytes`,`known`,`orphans`,`due`,`foreign`,`missing`,`deleted`,`spared`,`failed`];function ae(){let e=n(()=>S(`/admin/gc`,{limit:20}),`gc`,2e3),[t,r]=(0,N.useState)(null);async function i(t){r(t?`dry`:`real`);try{await c(`/admin/gc`,{dry_run:t}),w(u(`gc.asked`)),await e.reload()}catch(e){v(e)}finally{r(null)}}return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsx)(`p`,{className:`lead`,children:u(`gc.text`)}),(0,P.jsxs)(`div`,{className:`verb-row`,children:[(0,P.jsx)(l,{kind:`primary`,busy:t===`dry`,onClick:()=>void i(!0),children:u(`gc.dry`)}),(0,P.jsx)(l,{busy:t===`real`,onClick:()=>void i(!1),children:u(`gc.run`)})]}),(0,P.jsx)(f,{error:e.error}),!e.data&&!e.error&&(0,P.jsx)(x,{}),e.data?.items.length===0&&(0,P.jsx)(b,{title:u(`gc.none`)}),e.data?.items.map(e=>(0,P.jsx)(oe,{run:e},e.id))]})}function oe({run:e}){let t=e.report??{},n=t.stopped??t.error;return(0,P.jsxs)(`article`,{className:`panel run`,children:[(0,P.jsxs)(`header`,{children:[(0,P.jsx)(`h2`,{children:k(e.requested_at)}),(0,P.jsxs)(`span`,{className:`fine`,children:[e.dry_run?u(`gc.was_dry`):u(`gc.was_run`),` ·`,` `,e.requested_by?e.requested_by.username:u(`gc.by_itself`)]})]}),!e.finished_at&&(0,P.jsxs)(`p`,{children:[(0,P.jsx)(m,{}),` `,u(`gc.running`)]}),typeof n==`string`&&(0,P.jsx)(`p`,{className:`now-trouble`,children:n}),e.finished_at&&(0,P.jsx)(`dl`,{className:`figures`,children:ie.map(e=>(0,P.jsxs)(`div`,{children:[(0,P.jsx)(`dt`,{children:u(`gc.${e}`)}),(0,P.jsx)(`dd`,{children:se(e,t[`${e}_count`]??t[e])})]},e))}),(0,P.jsx)(F,{title:u(`gc.due_keys`),keys:t.due}),(0,P.jsx)(F,{title:u(`gc.foreign_keys`),keys:t.foreign})]})}function se(e,t){return typeof t==`number`?e===`bytes`?i(t):o(t):`–`}function F({title:e,keys:t}){return!Array.isArray(t)||!t.length?null:(0,P.jsxs)(`details`,{children:[(0,P.jsx)(`summary`,{children:e}),(0,P.jsx)(`ul`,{className:`plain-list keys`,children:t.slice(0,200).map(e=>(0,P.jsx)(`li`,{children:(0,P.jsx)(`code`,{children:String(e)})},String(e)))})]})}function I(e=``){return n(()=>O(`/users`,{q:e}),`users ${e}`)}function L(){let[e,t]=(0,N.useState)(``),n=I((0,N.useDeferredValue)(e.trim())),[i,a]=(0,N.useState)(null),[o,s]=(0,N.useState)(null),[c,d]=(0,N.useState)(null);async function m(e,t){try{await p(`PATCH`,`/users/${e.id}`,{body:t}),w(u(`users.changed`,{name:e.username})),await n.reload()}catch(e){v(e)}}return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsx)(`div`,{className:`toolbar`,children:(0,P.jsxs)(`div`,{className:`search`,children:[(0,P.jsx)(_,{name:`search`}),(0,P.jsx)(`input`,{type:`search`,value:e,onChange:e=>t(e.target.value),placeholder:u(`users.search`),"aria-label":u(`users.search`)})]})}),(0,P.jsx)(f,{error:n.error}),!n.data&&!n.error&&(0,P.jsx)(x,{}),n.data?.length===0&&(0,P.jsx)(b,{title:u(`users.none`)}),!!n.data?.length&&(0,P.jsx)(`div`,{className:`scroll panel flush`,children:(0,P.jsxs)(`table`,{children:[(0,P.jsx)(`thead`,{children:(0,P.jsxs)(`tr`,{children:[(0,P.jsx)(`th`,{children:u(`users.name`)}),(0,P.jsx)(`th`,{children:u(`users.role`)}),(0,P.jsx)(`th`,{children:u(`users.login`)}),(0,P.jsx)(`th`,{children:u(`users.last_login`)}),(0,P.jsx)(`th`,{children:u(`users.made`)}),(0,P.jsx)(`td`,{})]})}),(0,P.jsx)(`tbody`,{children:n.data.map(e=>(0,P.jsxs)(`tr`,{className:e.disabled?`off`:``,children:[(0,P.jsx)(`th`,{scope:`row`,children:e.username}),(0,P.jsx)(`td`,{children:(0,P.jsxs)(`select`,{"aria-label":`${u(`users.role`)} ${e.username}`,value:e.role,onChange:t=>void m(e,{role:t.target.value}),children:[(0,P.jsx)(`option`,{value:`user`,children:u(`role.user`)}),(0,P.jsx)(`option`,{value:`admin`,children:u(`role.admin`)})]})}),(0,P.jsx)(`td`,{children:e.disabled?u(`users.disabled`):u(`users.by_${e.login}`)}),(0,P.jsx)(`td`,{children:e.last_login_at?r(e.last_login_at):u(`users.never`)}),(0,P.jsx)(`td`,{children:k(e.created_at)}),(0,P.jsx)(`td`,{children:(0,P.jsxs)(`div`,{className:`verb-row end`,children:[(0,P.jsxs)(l,{kind:`quiet`,onClick:()=>s(e),children:[z(e),(0,P.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]}),e.login!==`oidc`&&(0,P.jsxs)(l,{kind:`quiet`,onClick:()=>a(e),children:[u(`users.give_password`),(0,P.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]}),(0,P.jsxs)(l,{kind:`quiet`,onClick:()=>d(e),children:[u(`verb.delete`),(0,P.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]}),(0,P.jsxs)(l,{kind:`quiet`,onClick:()=>void m(e,{disabled:!e.disabled}),children:[u(e.disabled?`users.enable`:`users.disable`),(0,P.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]})]})})]},e.id))})]})}),(0,P.jsx)(W,{onMade:()=>void n.reload()}),i&&(0,P.jsx)(G,{user:i,onClose:()=>a(null)}),c&&(0,P.jsx)(R,{user:c,onClose:()=>d(null),onDone:()=>void n.reload()}),o&&(0,P.jsx)(B,{user:o,onClose:()=>s(null),onChanged:()=>void n.reload()})]})}function R({user:e,onClose:t,onDone:n}){let[r,i]=(0,N.useState)(`trash`),{busy:a,error:o,ask:c}=s();async function l(){await p(`DELETE`,`/users/${e.id}`,{query:{workspaces:r}}),w(u(`users.deleted`,{name:e.username})),n(),t()}return(0,P.jsxs)(M,{title:u(`users.delete_title`,{name:e.username}),yes:u(`verb.delete`),danger:!0,busy:a,error:o,onYes:()=>void c(l),onClose:t,children:[(0,P.jsx)(`p`,{children:u(`users.delete_text`)}),[`trash`,`purge`].map(e=>(0,P.jsxs)(`label`,{className:`check`,children:[(0,P.jsx)(`input`,{type:`radio`,checked:r===e,onChange:()=>i(e)}),(0,P.jsx)(`span`,{children:u(`users.leave_${e}`)})]},e))]})}function z(e){return e.max_running===null?u(`users.limits`):u(`users.limits_own`,{n:e.max_running})}function B({user:e,onClose:t,onChanged:n}){let[r,i]=(0,N.useState)(e.max_running?.toString()??``),[a,o]=(0,N.useState)(e.max_workspaces?.toString()??``),{busy:c,error:l,ask:d}=s();async function f(){let i={max_running:V(r),max_workspaces:V(a)};await p(`PATCH`,`/users/${e.id}`,{body:i}),w(u(`users.changed`,{name:e.username})),n(),t()}let m=[[`users.max_running`,r,i],[`users.max_workspaces`,a,o]];return(0,P.jsxs)(M,{title:u(`users.limits_of`,{name:e.username}),yes:u(`app.save`),busy:c,error:l,onYes:()=>void d(f),onClose:t,children:[(0,P.jsx)(`p`,{children:u(`users.limits_text`)}),m.map(([e,t,n])=>(0,P.jsx)(T,{label:u(e),children:e=>(0,P.jsx)(`input`,{...e,type:`number`,min:0,max:1e6,value:t,placeholder:u(`users.limits_default`),onChange:e=>n(e.target.value)})},e))]})}function V(e){return e===``?null:Number(e)}function H(){return[...crypto.getRandomValues(new Uint8Array(200))].filter(e=>e<248).slice(0,20).map(e=>`abcdefghjkmnpqrstuvwxyz23456789`[e%31]).join(``).replace(/(.{5})(?=.)/g,`$1-`)}function U({ids:e,value:t,onChange:n}){let[r,i]=(0,N.useState)(!1);return(0,P.jsxs)(`span`,{className:`with-button`,children:[(0,P.jsx)(`input`,{...e,type:r?`text`:`password`,value:t,autoComplete:`new-password`,onChange:e=>n(e.target.value)}),(0,P.jsx)(l,{kind:`quiet`,onClick:()=>{i(!0),n(H())},children:u(`users.generate`)}),r&&t&&(0,P.jsx)(re,{text:t})]})}function W({onMade:e}){let[t,n]=(0,N.useState)(``),[r,i]=(0,N.useState)(``),[a,o]=(0,N.useState)(`user`),{busy:d,error:p,ask:m}=s();async function h(){await c(`/users`,{username:t.trim(),role:a,password:r||null}),w(u(`users.added`,{name:t})),n(``),i(``),e()}function g(e){e.preventDefault(),m(h)}return(0,P.jsxs)(D,{title:u(`users.new`),children:[(0,P.jsxs)(`form`,{className:`inline-form`,onSubmit:g,children:[(0,P.jsx)(T,{label:u(`users.name`),children:e=>(0,P.jsx)(`input`,{...e,value:t,maxLength:64,autoComplete:`off`,onChange:e=>n(e.target.value),required:!0})}),(0,P.jsx)(T,{label:u(`login.password`),children:e=>(0,P.jsx)(U,{ids:e,value:r,onChange:i})}),(0,P.jsx)(T,{label:u(`users.role`),children:e=>(0,P.jsxs)(`select`,{...e,value:a,onChange:e=>o(e.target.value),children:[(0,P.jsx)(`option`,{value:`user`,children:u(`role.user`)}),(0,P.jsx)(`option`,{value:`admin`,children:u(`role.admin`)})]})}),(0,P.jsx)(l,{type:`submit`,kind:`primary`,icon:`plus`,busy:d,disabled:!t.trim(),children:u(`users.add`)}),(0,P.jsx)(f,{error:p})]}),(0,P.jsx)(`p`,{className:`fine`,children:u(`users.password_hint`)})]})}function G({user:e,onClose:t}){let[n,r]=(0,N.useState)(``),{busy:i,error:a,ask:o}=s();async function c(){await p(`PATCH`,`/users/${e.id}`,{body:{password:n}}),w(u(`users.changed`,{name:e.username})),t()}return(0,P.jsxs)(M,{title:u(`users.password_of`,{name:e.username}),yes:u(`users.give_password`),ready:n!==``,busy:i,error:a,onYes:()=>void o(c),onClose:t,children:[(0,P.jsx)(`p`,{children:u(`users.password_text`)}),(0,P.jsx)(T,{label:u(`password.new`),hint:u(`password.hint`),children:e=>(0,P.jsx)(U,{ids:e,value:n,onChange:r})})]})}var K=E(`audit`).filter(e=>e.includes(`.`)),ce={user:``,action:``,since:``,until:``};function le(){let[e,t]=(0,N.useState)(ce),[r,i]=(0,N.useState)([]),a=r.at(-1)??null,o=fe(e),s=n(()=>S(`/admin/audit`,{...o,cursor:a,limit:50}),`audit ${a} ${JSON.stringify(o)}`,a?0:5e3);function c(n){t({...e,...n}),i([])}return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsx)(ue,{narrowed:e,narrow:c,csv:te(`/admin/audit.csv`,o)}),(0,P.jsx)(f,{error:s.error}),!s.data&&!s.error&&(0,P.jsx)(x,{}),s.data&&(0,P.jsx)(de,{lines:s.data.items}),s.data&&(0,P.jsx)(g,{cursors:r,next:s.data.next_cursor,turn:i})]})}function ue({narrowed:e,narrow:t,csv:n}){let r=I();return(0,P.jsxs)(`div`,{className:`toolbar filters`,children:[(0,P.jsxs)(`label`,{children:[u(`audit.who`),(0,P.jsxs)(`select`,{value:e.user,onChange:e=>t({user:e.target.value}),children:[(0,P.jsx)(`option`,{value:``,children:u(`audit.anybody`)}),r.data?.map(e=>(0,P.jsx)(`option`,{value:e.id,children:e.username},e.id))]})]}),(0,P.jsxs)(`label`,{children:[u(`audit.what`),(0,P.jsxs)(`select`,{value:e.action,onChange:e=>t({action:e.target.value}),children:[(0,P.jsx)(`option`,{value:``,children:u(`audit.anything`)}),K.map(e=>(0,P.jsx)(`option`,{value:e,children:y(`audit`,e)},e))]})]}),(0,P.jsxs)(`label`,{children:[u(`audit.since`),(0,P.jsx)(`input`,{type:`date`,value:e.since,onChange:e=>t({since:e.target.value})})]}),(0,P.jsxs)(`label`,{children:[u(`audit.until`),(0,P.jsx)(`input`,{type:`date`,value:e.until,onChange:e=>t({until:e.target.value})})]}),(0,P.jsxs)(`a`,{className:`button plain`,href:n,download:!0,children:[(0,P.jsx)(_,{name:`download`}),u(`audit.csv`)]})]})}function de({lines:e}){return(0,P.jsx)(`div`,{className:`scroll panel flush`,children:(0,P.jsxs)(`table`,{children:[(0,P.jsx)(`thead`,{children:(0,P.jsxs)(`tr`,{children:[(0,P.jsx)(`th`,{children:u(`audit.when`)}),(0,P.jsx)(`th`,{children:u(`audit.who`)}),(0,P.jsx)(`th`,{children:u(`audit.what`)}),(0,P.jsx)(`th`,{children:u(`audit.where`)})]})}),(0,P.jsx)(`tbody`,{children:e.map(e=>(0,P.jsxs)(`tr`,{children:[(0,P.jsx)(`td`,{children:k(e.at)}),(0,P.jsx)(`td`,{children:e.user?.username??u(`audit.system`)}),(0,P.jsxs)(`td`,{children:[y(`audit`,e.action)??e.action,` `,e.workspace_id&&(0,P.jsx)(a,{href:`/workspaces/${e.workspace_id}`,children:e.workspace_name??u(`audit.workspace`)}),(0,P.jsx)(`span`,{className:`fine details`,children:pe(e)})]}),(0,P.jsx)(`td`,{className:`fine`,children:e.address})]},e.id))})]})})}function fe(e){let t=e.since&&new Date(`${e.since}T00:00`).toISOString(),n=e.until?new Date(`${e.until}T00:00`):null;return n?.setDate(n.getDate()+1),{user:e.user,action:e.action,since:t,until:n?.toISOString()??``}}function pe(e){return Object.entries(e.details).filter(([,e])=>e!==null&&e!==!1).map(([e,t])=>`${e}: ${Array.isArray(t)?t.join(`, `):String(t)}`).join(` · `)}var me=[24,168,720];function he(){let[e,t]=(0,N.useState)(24),r=n(()=>S(`/admin/figures`,{hours:e}),`figures ${e}`,6e4);return(0,P.jsxs)(D,{title:u(`figures.title`),actions:(0,P.jsxs)(`label`,{children:[(0,P.jsx)(`span`,{className:`hidden`,children:u(`figures.period`)}),(0,P.jsx)(`select`,{value:e,onChange:e=>t(Number(e.target.value)),children:me.map(e=>(0,P.jsx)(`option`,{value:e,children:e>24?u(`figures.days`,{n:e/24}):u(`figures.hours`,{n:e})},e))})]}),children:[(0,P.jsx)(f,{error:r.error}),!r.data&&!r.error&&(0,P.jsx)(x,{}),r.data&&(0,P.jsx)(ge,{figures:r.data})]})}function ge({figures:e}){let n=ee(),r=n-e.hours*36e5,a={from:r,to:n,none:u(`figures.none`)},s=e=>e.map(e=>Math.max(r,Date.parse(e.at)));return(0,P.jsxs)(`div`,{className:`charts`,children:[(0,P.jsx)(j,{...a,title:u(`figures.workspaces`),stacked:!0,whole:!0,times:s(e.phases),series:[{name:t(`RUNNING`),tone:`phase-running`,values:e.phases.map(e=>e.running)},{name:t(`STANDBY`),tone:`phase-standby`,values:e.phases.map(e=>e.standby)},{name:t(`ARCHIVED`),tone:`phase-archived`,values:e.phases.map(e=>e.archived)},{name:t(`ERROR`),tone:`phase-error`,values:e.phases.map(e=>e.error)}],format:e=>o(Math.round(e*10)/10)}),(0,P.jsx)(j,{...a,whole:!0,title:u(`figures.archives`),none:u(`figures.archives_none`),times:s(e.archives),series:[{name:u(`gc.bytes`),tone:`phase-archived`,values:e.archives.map(e=>e.bytes)}],format:i}),(0,P.jsx)(q,{...a,title:u(`figures.starts`),points:e.starts,times:s(e.starts)}),(0,P.jsx)(q,{...a,title:u(`figures.restores`),points:e.restores,times:s(e.restores)})]})}function q({points:e,...t}){return(0,P.jsx)(j,{...t,series:[{name:u(`figures.p50`),tone:`phase-running`,values:e.map(e=>e.p50_ms/1e3)},{name:u(`figures.p95`),tone:`phase-standby`,values:e.map(e=>e.p95_ms/1e3)}],format:e=>e.toFixed(+(e<10))})}function _e(e,t){let n=e.split(`
`),r=n.indexOf(`### ${t}`);if(r<0)return null;let i=n.slice(r+1).findIndex(e=>e.startsWith(`#`)),a=i<0?n.length:r+1+i;return n.slice(r+1,a).join(`
`).trim().replace(/(?<!\n)\n(?!\n)/g,` `).replace(/\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)/g,"`docs/$2`")}function ve(){let e=n(()=>S(`/admin/health`),`health`,5e3);return(0,P.jsxs)(D,{title:u(`health.title`),actions:e.data&&(0,P.jsx)(`span`,{className:`fine`,children:u(`health.version`,{version:e.data.version})}),children:[(0,P.jsx)(f,{error:e.error}),!e.data&&!e.error&&(0,P.jsx)(x,{}),e.data&&(0,P.jsx)(be,{health:e.data})]})}var ye={ok:`up`,warning:`warned`,failed:`down`};function be({health:e}){return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsx)(`p`,{children:u(e.ready?`health.all_up`:`health.some_down`)}),(0,P.jsx)(`ul`,{className:`plain-list health`,children:e.dependencies.map(e=>{let t=e.state===`down`?`down`:e.detail?`warned`:`up`,n=e.code??null,r=u(`health.${t}`);return(0,P.jsx)(J,{name:e.name,state:t,words:r,told:[e.detail],code:n},e.name)})}),(0,P.jsx)(`h3`,{children:u(`health.findings`)}),(0,P.jsx)(`ul`,{className:`plain-list health findings`,children:e.findings.map(e=>{let t=e.code?[e.detail,e.advice]:[],n=`${e.check} ${e.detail}`,r=ye[e.state],i=u(r===`warned`?`health.noticed`:`health.${r}`);return(0,P.jsx)(J,{name:e.check,state:r,words:i,told:t,code:e.code},n)})}),(0,P.jsxs)(`details`,{children:[(0,P.jsx)(`summary`,{children:u(`health.isolation`)}),Object.entries(e.isolation).map(([e,t])=>(0,P.jsxs)(`div`,{className:`isolation`,children:[(0,P.jsx)(`h3`,{children:e}),(0,P.jsx)(`ul`,{lang:`en`,children:t.map(e=>(0,P.jsx)(`li`,{children:e},e))})]},e))]})]})}function J({name:e,state:t,words:n,told:r,code:i}){let a=i&&_e(`# Runbook

One entry for each alert of \`deploy/prometheus/alerts.yaml\` and for each code of \`codehub doctor\`. First of all, always:

    codehub doctor            # on the machine that CodeHub runs on
    codehub doctor --remote   # from anywhere, against the server you are logged in to

Nothing in CodeHub deletes a home or an archive because something cannot be reached; an outage costs time, not data.
There is no need to hurry towards anything destructive.

## Alerts

### CodeHubNoLeader

Workspaces neither start nor stop; those that run go on running and can be used.
Is a \`codehub up\` or \`codehub coordinator\` alive? Its log says "this coordinator leads" or why not; most often the
database cannot be reached (CH-DB-1). A process that hangs loses its place by itself after 6 s.

### CodeHubTwoLeaders

For a few seconds after a network cut this is normal: the old one cannot write any more (its epoch is refused). If it
lasts, two *installations* are scraped as one: give them different Prometheus jobs.

### CodeHubDependencyDown

\`/readyz\` of the process says what is wrong with the dependency and what to do. \`postgresql\`: nothing works but open
connections to workspaces. \`redis\`: live events and idle detection wait; no idle workspace is stopped meanwhile.
\`coordinator\`: it neither leads nor stands by; unless another one leads, see CodeHubNoLeader. \`administrator\`: an API that
has just started does not know yet whether there is one, and takes no requests before it does; its database is slow, or
something holds a lock on it.
\`archives\`, \`docker\`, \`k8s\`, \`process\`: see CodeHubOutage.

### CodeHubOutage

The engine or the archive store cannot be reached. Its workspaces are left as they are, no deadline runs, none goes to
ERROR; when it returns everything converges. Mend the engine or the store; touch nothing in CodeHub. A store that is
full, read-only or refuses our credentials is out, too (CH-STO-2).

If its cause is that many archives are missing at once, see CH-STO-3. If it is that many homes are missing at once (\`/readyz\` of the leader says so), the engine answers, but a disk is
not mounted, or is lost. Mount it, and everything goes on. If the homes are gone for good, say so:
\`codehub accept-losses BACKEND\`. Within a minute their workspaces are errors (DataLost) that their users can recover from
their archives or with a blank home; what still runs of them is stopped, so copy out what is only there first. It is
about those that are missing at that moment; the leader notes which within seconds, so another one that takes over later
goes on with it. If it took over before that, the workspaces stay as they are: say it again. No home is removed.

### CodeHubLostCommits

The database has gone back in time, and was not settled since. See CH-DB-4.

### CodeHubLoopFailing

The log of the leader has the cause under the loop's name. \`controller\`: workspaces do not move. \`ttl\`: nothing expires.
\`gc\`: archives are not collected. \`accounts\`, \`housekeeping\`, \`census\`: nothing urgent. A part that fails skips its turn
and tries again; a cause that is no outage is worth a bug report.

### CodeHubTickSlow

A tick reads the rows that need something and writes them in one transaction; more than 10 s means a slow database, or
thousands of workspaces changing at once. Look at the database's load and disk first.

### CodeHubBacklog

More driver calls than the engine carries out. After an outage this is normal for a while. Otherwise the engine is slow
(\`docker info\`, disk) or images are being pulled.

If \`codehub_storage_jobs_waiting\` grows, homes are moved more slowly than they are due: the store or the machine is slow,
or \`MAX_JOBS_PER_NODE\` and \`MAX_JOBS_GLOBAL\` are low. Waiting harms nothing: restores go first, no time limit runs.

### CodeHubOperationsFailing

\`codehub ws list --all --phase ERROR\` shows which; \`codehub ws show\` says why in one sentence, the log has the full
cause under the workspace's id. One workspace: see CH-OP-2. All of one backend: the engine, the image or the disk.

### CodeHubStartsSlow

Compare with \`codehub drill restore\` for the archive store's share. Usual causes: images that are not present, a full
disk, CPU.

### CodeHubWorkspacesInError

A person must decide. See CH-OP-2.

### CodeHubGcStopped

More than 20 % (and more than 10) of all archives look orphaned and no row says why: most often the rows are wrong, or
\`ARCHIVE_URL\` names another installation's store. Deleted workspaces and archives that newer ones replaced are explained
by their rows, and do not count. Nothing is deleted. Compare \`codehub gc --dry-run\` with what you
expect; after a restore read [backup.md](backup.md). Only when every orphan is explained: \`codehub gc --override\`.

### CodeHubGcNotRun

GC runs every \`COORDINATOR_GC_INTERVAL\` on the leader. It skips a cycle when the store or the database cannot be read: the log says
so. Until it runs, archives only cost room.

### CodeHubArchivesMissing

Rows refer to archives that the store does not list. Each is looked at directly before anything is concluded. If the
store lost them, put them back from its backup (object and \`.meta\`), then \`codehub ws recover\`. \`codehub restore\` gives each
workspace the newest whole archive that there is ([backup.md](backup.md)).

### CodeHubUnknownResources

See CH-ORP-1.

### CodeHubEventsLate

Redis takes no events; people see changes only when a page is read anew. Check Redis (CH-RED-1). Nothing is lost.

### CodeHubHttpErrors

Which routes: \`codehub_http_requests_total\` by route and status. 503 is a dependency (CodeHubDependencyDown). 500 is a
bug: the log has it, with the request's id.

### CodeHubHttpSlow

Reads of one user's workspaces take milliseconds; seconds mean a database that is short of CPU, disk or connections
(\`DATABASE_POOL_SIZE\`).

### CodeHubProxyErrors

The proxy answers by itself when what should answer cannot be reached: the API (see its log and its port), or a workspace
that ended a moment ago. \`codehub_proxy_answers_total\` by \`by\` and \`status\` says which kind; 503 with
\`too_many_connections\` counts in \`codehub_proxy_turned_away_total\`.

### CodeHubGateBlind

The proxy does not reach PostgreSQL. Whoever was inside within the last 30 s goes on, WebSockets stay open for five
minutes, nobody new gets in. Check the database (CH-DB-1) and what is between it and this proxy.

## Codes of \`codehub doctor\`

### CH-TIME-1

**Not everything was looked at.** What comes after the last line took too long: a server that takes connections and does
not answer, or a name that is not resolved. Mend what the lines before it say, or look for longer: \`--timeout\`.

### CH-PY-1

**Python is too old.** CodeHub needs Python 3.11 or newer: install one and make its virtual environment anew.

### CH-SET-1

**A setting is wrong.** The line names it; [settings.md](settings.md) says what it may be.

### CH-DIR-1

**The data directory cannot be used.** It belongs to somebody else, holds other files, or its disk is not there. Choose
another with \`CODEHUB_DATA_DIR\`, or run CodeHub as its owner. Never empty a folder to make CodeHub start.

### CH-DIR-2

**Others can read the secrets.** \`chmod 700\` the folder. If other people use this machine, consider the database's
password known: stop CodeHub, change it in PostgreSQL (\`ALTER ROLE codehub PASSWORD …\`) and in \`secrets/\`.

### CH-DISK-1

**A disk is almost full.** PostgreSQL stops when it is. Archive or delete workspaces, shorten \`TTL_ARCHIVE_SECONDS\`,
move archives to a bucket, or enlarge the disk.

### CH-DISK-2

**No workspace is started: the disk is almost full.** Less is free on the disk of the homes than is kept free
(\`PROCESS_DISK_RESERVE\`), so that the database never meets a full one. Until there is room nothing is started or restored;
what stands by is archived, and of what runs, the workspace whose home grows fastest is stopped, one every ten seconds.
Make room as for CH-DISK-1; if archives are on the same disk, move them to a bucket first. It goes on by itself.

### CH-PORT-1

**The port is in use.** Stop the other program, or set \`CODEHUB_PORT\`. Where a CodeHub answers there, and the parts run
apart, it is not known whether it is this one: if it is, all is well.

### CH-DB-1

**PostgreSQL cannot be used.** The sentence says why: address, password, TLS, connections. For the embedded one read
\`logs/postgres.log\` in the data directory; \`codehub up\` starts it again by itself and ends only when it keeps dying.

### CH-DB-2

**The database has another schema version.** Older: \`codehub migrate\` (or \`codehub up\`); if that says that the tables are in
use, wait for the transaction it names (a backup) or end it. Newer: start the newer CodeHub, or stop everything and
\`codehub restore FILE --force\` a backup from before the upgrade with this version.

### CH-DB-3

**A database role cannot be used.** The user in \`DATABASE_URL\` must be a member of the roles that \`codehub migrate\`
makes; it prints the statements for an administrator when it may not make them itself.

### CH-DB-4

**The database has lost commits.** It is older than what CodeHub did: an asynchronous replica was promoted, or a snapshot
took its place. Rows may say of a workspace what has been over since: an operation that has ended, a home that has moved,
an archive that is not its newest. CodeHub works on, and removes nothing that these rows do not name. Settle it soon, before
people work on with older homes: stop every CodeHub that uses the database (all of \`codehub up\`, \`coordinator\`, \`api\` and
\`proxy\`), then run, with the same settings,

\`\`\`console
$ codehub backup /backups/lost-commits.backup
$ codehub restore /backups/lost-commits.backup --force
\`\`\`

and start CodeHub again. It ends every operation, gives each workspace its newest archive and tells its owner; everybody
logs in again ([backup.md](backup.md#after-a-restore-by-other-means)). That ends the finding; nothing else does. Workspaces
whose home is on another volume than their row says go to ERROR then, and their owners decide. To lose nothing the next time,
let the replica that may be promoted be a synchronous one (\`synchronous_standby_names\`).

### CH-RED-1

**Redis cannot be used.** Check \`REDIS_URL\`, its password and the network. For the embedded one read \`logs/valkey.log\`.
It may be emptied at any time: nothing lasting is in it.

### CH-EMB-1

**The programs of an embedded server are missing.** They come with CodeHub on Linux (x86-64 and arm64): install it again,
or name servers of your own in \`DATABASE_URL\` and \`REDIS_URL\`.

### CH-STO-1

**The archive store cannot be used.** A bucket: endpoint, credentials, name, clock. A folder: is its disk mounted? CodeHub
never makes a folder again that it has used before.

### CH-STO-2

**Archives can be neither made nor restored now.** The store answers and does not do its work, or a storage job cannot
reach it: it is full, a quota is used up, it is read-only, it refuses the credentials, or it answers 5xx; the sentence is
the newest answer. \`/readyz\` of the leader says \`degraded\` with the same words. Make room, raise the quota, or mend it;
touch nothing in CodeHub. Homes stay on their volumes, nothing counts against a workspace, none goes to ERROR. Each tries
again after a quarter of the time that it has waited, at most 5 minutes, so all go on by themselves. An answer that is
about one archive (too large, invalid) is no outage: that workspace alone fails, and says so.

### CH-STO-3

**Many archives are missing at once.** Of a few archives that workspaces need, most are not in the store: the store was
emptied, or \`ARCHIVE_URL\`, \`ARCHIVE_PREFIX\` or \`S3_ENDPOINT\` name another bucket, folder or prefix than before. CodeHub takes
it for an outage: nothing is restored, archived or removed, and no workspace goes to ERROR; \`/readyz\` of the leader says
\`degraded\`. Correct the setting, or bring the archives back; everything goes on within seconds. What is lost for good:
\`codehub accept-losses archives\`. The leader then lists the store once; the workspaces whose archives are missing at that
moment become errors (ArchiveAccessError), which can be recovered with a blank home, or from the archive should it come back.

### CH-CLK-1

**Clocks disagree.** Let both machines follow NTP. CodeHub decides by the database's clock alone; but S3 refuses requests
from clocks that are minutes off, and people read wrong times.

### CH-DOC-1

**The Docker engine cannot be used.** Start it, or let this user use its socket; \`DOCKER_HOST\` says where it is.

### CH-K8S-1

**The Kubernetes cluster cannot be used.** \`K8S_KUBECONFIG\`, \`K8S_CONTEXT\` and \`K8S_NAMESPACE\` say where it is; the
sentence says whether the address, the credentials or a right is wrong ([kubernetes.md](kubernetes.md)).

### CH-BOX-1

**Workspaces cannot be sandboxed.** \`apt install bubblewrap\`; in a container it needs user namespaces. Without it set
\`PROCESS_SANDBOX=auto\`, for people who trust each other only.

### CH-BOX-2

**Workspaces are not well isolated.** The line says what is missing and what to do; [security.md](security.md) what it
means.

### CH-IDE-1

**An IDE cannot be started.** \`codehub ide install NAME\`, or take it out of \`CODEHUB_IMAGES\`.

### CH-RUN-1

**A workspace cannot live here.** The self-check, made before CodeHub says that it runs, failed; its sentence says at
which step. Processes: a program runs as a workspace's user and writes a home, which is archived to the store and
restored. *Permission denied* or *is closed to the users of workspaces*: keep data, Python and CodeHub where every user
may enter (\`CODEHUB_DATA_DIR=/var/lib/codehub\`), or install bubblewrap. *No space left*: make room on the disk of the data
directory or of the archives. Docker: an image is missing; build it with \`make image\`, or pull it. Kubernetes: the API
server refused a dry run; its words say why (a quota, a security rule, a storage class). \`codehub doctor\` makes the
check again.

### CH-SRV-1

**The server does not answer.** Is it running, is the address right, does a firewall or a proxy stand between?

### CH-SRV-2

**The server has another version.** The command line and the server should be of one version; near ones work.

### CH-SRV-3

**A dependency of the server is down.** Its own sentence says what to do. See CodeHubDependencyDown.

### CH-SRV-4

**A dependency of the server has a warning.** It works; the sentence says what could be better.

### CH-LOG-1

**You are not logged in.** \`codehub login URL\`. A token that was revoked, or whose user is disabled, is refused.

### CH-URL-1

**CodeHub does not answer at its public address.** \`CODEHUB_PUBLIC_URL\` is what browsers use: its name, its certificate,
and a proxy in front that forwards to \`CODEHUB_PORT\`. From inside some networks the public address cannot be reached
although it works from outside: then this is only a warning.

### CH-DNS-1

**The names of workspaces do not lead to CodeHub.** \`CODEHUB_WORKSPACE_HOST=ws.example.com\` needs a DNS entry
\`*.ws.example.com\` that leads where \`CODEHUB_PUBLIC_URL\` leads, and a certificate for \`*.ws.example.com\` in whatever ends
TLS. Until then workspaces cannot be opened; \`CODEHUB_WORKSPACE_HOST=none\` opens them below \`/w/\`, with the risk that
[security.md](security.md) describes.

### CH-WS-1

**WebSockets do not reach CodeHub's proxy.** IDEs open and then say that they are disconnected. Something between the
browser and CodeHub does not pass the handshake on. nginx: \`proxy_http_version 1.1; proxy_set_header Upgrade
$http_upgrade; proxy_set_header Connection "upgrade";\` and a \`proxy_read_timeout\` of an hour. Apache: \`mod_proxy_wstunnel\`.
A load balancer of layer 7: switch WebSockets on. \`codehub doctor\` and the administrator's page try it at the public
address and below the names of workspaces; \`codehub doctor --remote\` from where you are.

### CH-LEAD-1

**No coordinator leads.** See CodeHubNoLeader.

### CH-OP-1

**An operation takes very long.** Every operation has a limit and ends by itself, in ERROR if need be; archiving and
restoring have one by progress, so a large home may take long. While the engine or the store is out, operations wait.

### CH-OP-2

**Workspaces are in ERROR.** \`codehub ws show\` of each says why. Timeout, RetryExceeded, ImagePullFailed: mend the cause,
\`codehub ws recover\`. DataLost: the home's volume vanished; \`codehub ws recover --from archive\` goes back to the last
archive, \`--from volume\` when the volume is back. ArchiveCorrupted, ArchiveAccessError: [bring the archive
back](#bring-an-archive-back). *What is to be done
about it cannot be told*: CodeHub itself breaks on this workspace (\`codehub_decisions_broken_total\` counts it, the log has
the details). Its home is untouched; report it, and recover once the cause is gone.

### CH-GC-1

**GC has stopped to protect archives.** See CodeHubGcStopped.

### CH-GC-2

**Archives are missing.** See CodeHubArchivesMissing.

### CH-GC-3

**The database does not remember archives.** They were made after the moment that it was restored to, or their commits
were lost in a failover; each may be somebody's newest home, so none is deleted ([ADR 16](adr/0016-archives-remembered.md)).
\`codehub gc --dry-run\` names them. Give one back with \`codehub adopt KEY --owner USERNAME\`, which copies it; when nobody
wants it (any more): \`codehub gc --discard KEY\`. It is then removed like any orphan, after \`GC_ORPHAN_DELAY_SECONDS\`.

### CH-ORP-1

**Containers or volumes belong to no workspace.** They are left by an earlier installation, by a restored database, or by
an interrupted \`codehub drill restore\` (ids that begin with \`0d2111\`; \`--clean\` removes those). Nothing removes them by
itself, since a database that was restored to an earlier moment may have forgotten whose home it is. See them, look into
them, then remove them:

\`\`\`console
$ codehub gc --orphans --dry-run
$ codehub gc --orphans
\`\`\`

Where they are more than 10, and more than 20 % of all that there is, the second stops like any collection: see whether the
database is the right one, then add \`--override\`. Each workspace is looked for once more before anything of it is removed.
The leader notes how many
there are in the database, where the administrator's page and \`codehub doctor\` read it, whichever process leads. Nothing
is told while nobody leads, and until a new leader has looked at every engine once.

## Bring an archive back

For a workspace in ERROR with ArchiveCorrupted or ArchiveAccessError: its archive is damaged or gone. \`codehub ws show
NAME --admin\` (or the administrator's part of its page) says where it belongs:

\`\`\`console
$ codehub ws show thesis --admin
…
Archive key   0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11/5d9d4c5e-7f9e-4a54-a4be-6f2f3c1e0a77/home.tar.zst
\`\`\`

**From a backup of the store**: upload the object under exactly that key, below the store's prefix (\`ARCHIVE_PREFIX\`,
\`archives/\` by default), and its meta after it; then a plain recovery looks again.

\`\`\`console
$ KEY=0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11/5d9d4c5e-7f9e-4a54-a4be-6f2f3c1e0a77/home.tar.zst
$ cp -p "BACKUP/$KEY" "STORE/archives/$KEY" && cp -p "BACKUP/$KEY.meta" "STORE/archives/$KEY.meta"   # a folder
$ aws s3 cp "BACKUP/$KEY" "s3://BUCKET/archives/$KEY" && aws s3 cp "BACKUP/$KEY.meta" "s3://BUCKET/archives/$KEY.meta"
$ codehub ws recover thesis
\`\`\`

**From an older archive of the same workspace** that the store still has: \`codehub adopt OLDER_KEY --owner USERNAME\` copies
it into a new workspace. To give it to this very one, name it in the row, as the owner of the tables
(\`psql "$DATABASE_URL"\`); the statement changes nothing unless the workspace is in ERROR and at rest:

\`\`\`sql
UPDATE workspaces SET archive_key = 'OLDER_KEY'
WHERE id = 'WORKSPACE_ID' AND phase = 'ERROR' AND operation = 'NONE' AND 'OLDER_KEY' LIKE id || '/%/home.tar.zst';
\`\`\`

Then \`codehub ws recover thesis\` as above. **Without any archive**: \`codehub ws recover thesis --from blank\` drops the key
and begins with an empty home.
`,i);return(0,P.jsxs)(`li`,{className:t,children:[(0,P.jsx)(`strong`,{children:y(`health`,e)??e}),(0,P.jsx)(`span`,{children:n}),r.filter(Boolean).map(e=>(0,P.jsx)(`p`,{className:`fine`,lang:`en`,children:e},e)),a&&(0,P.jsxs)(`details`,{children:[(0,P.jsx)(`summary`,{children:u(`health.runbook`,{code:i})}),(0,P.jsx)(`div`,{lang:`en`,children:(0,P.jsx)(A,{text:a})})]})]})}var Y=[`max_running_per_user`,`max_running_global`,`max_workspaces_per_user`];function xe({limits:e,reload:t}){let[n,r]=(0,N.useState)(!1);return(0,P.jsxs)(`details`,{open:n,onToggle:e=>r(e.currentTarget.open),children:[(0,P.jsx)(`summary`,{children:u(`limits.change`)}),n&&(0,P.jsx)(Se,{limits:e,reload:t})]})}function Se({limits:e,reload:t}){let[n,r]=(0,N.useState)(()=>Ce(e)),{busy:i,error:a,ask:o}=s();async function c(){let e=Object.fromEntries(Y.map(e=>[e,n[e]===``?null:Number(n[e])]));await p(`PUT`,`/admin/limits`,{body:e}),w(u(`limits.changed`)),await t()}function d(e){e.preventDefault(),o(c)}return(0,P.jsxs)(`form`,{className:`form`,onSubmit:d,children:[Y.map(t=>(0,P.jsx)(T,{label:u(`limits.${t}`),children:i=>(0,P.jsx)(`input`,{...i,type:`number`,min:1,max:1e6,value:n[t],placeholder:u(`limits.configured`,{n:e.configured[t]??0}),onChange:e=>r({...n,[t]:e.target.value})})},t)),(0,P.jsx)(`p`,{className:`fine`,children:u(`limits.text`)}),(0,P.jsx)(f,{error:a}),(0,P.jsx)(`footer`,{children:(0,P.jsx)(l,{type:`submit`,kind:`primary`,busy:i,children:u(`app.save`)})})]})}function Ce(e){let t=Y.map(t=>[t,e.set[t]?.toString()??``]);return Object.fromEntries(t)}function we(){return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsxs)(`div`,{className:`columns even`,children:[(0,P.jsx)(ve,{}),(0,P.jsx)(Te,{})]}),(0,P.jsx)(he,{})]})}function Te(){let e=n(()=>S(`/admin/limits`),`limits`,5e3);return(0,P.jsxs)(D,{title:u(`limits.title`),children:[(0,P.jsx)(f,{error:e.error}),!e.data&&!e.error&&(0,P.jsx)(x,{}),e.data&&(0,P.jsxs)(P.Fragment,{children:[(0,P.jsx)(X,{label:u(`limits.total`),value:e.data.total.running,limit:e.data.total.limit}),e.data.users.filter(e=>e.running>0).map(e=>(0,P.jsx)(X,{label:e.user.username,value:e.running,limit:e.limit},e.user.id)),(0,P.jsx)(xe,{limits:e.data,reload:e.reload})]})]})}function X({label:e,value:t,limit:n}){return(0,P.jsxs)(`div`,{className:`meter`,children:[(0,P.jsx)(`span`,{children:e}),(0,P.jsx)(`meter`,{"aria-label":e,min:0,max:Math.max(1,n),high:n*.9,value:t}),(0,P.jsx)(`span`,{children:u(`limits.of`,{n:t,limit:n})})]})}var Z=[`RUNNING`,`STANDBY`,`ARCHIVED`,`PENDING`,`ERROR`],Q=5e3;function Ee(){let[e,r]=(0,N.useState)(``),[i,a]=(0,N.useState)(``),[o,s]=(0,N.useState)([]),c=(0,N.useDeferredValue)(e.trim()),l=o.at(-1)??null,d=n(()=>S(`/admin/workspaces`,{q:c,phase:i,cursor:l,limit:50}),`${c} ${i} ${l}`,Q),p=d.data?.next_cursor;return(0,P.jsxs)(P.Fragment,{children:[(0,P.jsxs)(`div`,{className:`toolbar`,children:[(0,P.jsxs)(`div`,{className:`search`,children:[(0,P.jsx)(_,{name:`search`}),(0,P.jsx)(`input`,{type:`search`,value:e,onChange:e=>{r(e.target.value),s([])},placeholder:u(`list.search`),"aria-label":u(`list.search`)})]}),(0,P.jsxs)(`label`,{className:`sort`,children:[(0,P.jsx)(`span`,{className:`hidden`,children:u(`list.narrow`)}),(0,P.jsxs)(`select`,{value:i,onChange:e=>{a(e.target.value),s([])},children:[(0,P.jsx)(`option`,{value:``,children:u(`list.all`)}),Z.map(e=>(0,P.jsx)(`option`,{value:e,children:t(e)},e))]})]})]}),(0,P.jsx)(f,{error:d.error}),!d.data&&!d.error&&(0,P.jsx)(x,{}),d.data&&!d.data.items.length&&(0,P.jsx)(b,{title:u(`list.none`)}),d.data&&d.data.items.length>0&&(0,P.jsx)(De,{items:d.data.items}),(p||o.length>0)&&(0,P.jsx)(g,{cursors:o,next:p,turn:s})]})}function De({items:e}){return(0,P.jsx)(`div`,{className:`scroll panel flush`,children:(0,P.jsxs)(`table`,{children:[(0,P.jsx)(`thead`,{children:(0,P.jsxs)(`tr`,{children:[(0,P.jsx)(`th`,{children:u(`create.name`)}),(0,P.jsx)(`th`,{children:u(`users.name`)}),(0,P.jsx)(`th`,{children:u(`admin.state`)}),(0,P.jsx)(`th`,{children:u(`create.image`)}),(0,P.jsx)(`th`,{children:u(`admin.used`)})]})}),(0,P.jsx)(`tbody`,{children:e.map(e=>(0,P.jsxs)(`tr`,{children:[(0,P.jsx)(`th`,{scope:`row`,children:(0,P.jsx)(a,{href:`/workspaces/${e.id}`,children:e.name})}),(0,P.jsx)(`td`,{children:e.owner.username}),(0,P.jsx)(`td`,{children:(0,P.jsx)(h,{workspace:e})}),(0,P.jsxs)(`td`,{children:[e.image_ref,` `,(0,P.jsx)(`span`,{className:`fine`,children:e.backend})]}),(0,P.jsx)(`td`,{children:e.last_access_at?r(e.last_access_at):u(`time.never`)})]},e.id))})]})})}function Oe(){let e=n(()=>S(`/admin/workspaces`,{phase:`ERROR`,limit:100}),`errors`,Q);return e.data?e.data.items.length?(0,P.jsx)(P.Fragment,{children:e.data.items.map(t=>(0,P.jsxs)(`article`,{className:`error-item`,children:[(0,P.jsxs)(`p`,{children:[(0,P.jsx)(a,{href:`/workspaces/${t.id}`,className:`row-name`,children:t.name}),` `,(0,P.jsx)(`span`,{className:`fine`,children:u(`workspace.owner`,{name:t.owner.username})})]}),(0,P.jsx)(ne,{isAdmin:!0,workspace:t,reload:e.reload})]},t.id))}):(0,P.jsx)(b,{title:u(`errors.none`)}):e.error?(0,P.jsx)(f,{error:e.error}):(0,P.jsx)(x,{})}var $={"/admin":we,"/admin/workspaces":Ee,"/admin/errors":Oe,"/admin/users":L,"/admin/archives":ae,"/admin/audit":le};function ke({path:e}){C(u(`nav.admin`));let t=e.replace(/\/$/,``),n=t in $?$[t]:null;return(0,P.jsxs)(`main`,{children:[(0,P.jsx)(`div`,{className:`page-head`,children:(0,P.jsx)(`h1`,{children:u(`nav.admin`)})}),(0,P.jsx)(`nav`,{className:`tabs`,"aria-label":u(`nav.admin`),children:Object.keys($).map(e=>(0,P.jsx)(a,{href:e,"aria-current":e===t?`page`:void 0,children:u(`admin.${e===`/admin`?`overview`:e.slice(7)}`)},e))}),n?(0,P.jsx)(n,{}):(0,P.jsx)(b,{title:u(`app.nowhere`)})]})}export{ke as default};