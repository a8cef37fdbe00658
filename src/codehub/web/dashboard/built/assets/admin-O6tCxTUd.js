import{$ as e,Dt as t,Et as n,H as r,K as i,Ot as a,Q as o,Tt as s,W as c,X as l,a as u,c as d,d as f,dt as p,f as m,h,ht as g,it as _,lt as v,m as y,n as b,nt as x,o as S,ot as C,p as ee,pt as w,q as T,r as E,s as D,st as te,tt as ne,u as O,ut as k,vt as re,xt as A,yt as j}from"./toasts-DDTrkvWw.js";import{a as ie,i as ae,n as oe,r as M,s as N,t as P}from"./index-D2pMF0xS.js";var F=a(),I=te(),se=[`found`,`bytes`,`known`,`orphans`,`due`,`foreign`,`unremembered`,`missing`,`deleted`,`spared`,`failed`],ce=[`found_here`,`orphans`,`due`,`deleted`,`spared`,`failed`];function le(){let t=e(()=>A(`/admin/gc`,{limit:20}),`gc`,2e3),[n,r]=(0,F.useState)(null),[i,a]=(0,F.useState)(!1);async function o(e){r(e);try{await s(`/admin/gc`,{dry_run:e.endsWith(`dry`),orphans:e.startsWith(`orphans`)}),E(w(`gc.asked`)),await t.reload()}catch(e){b(e)}finally{r(null),a(!1)}}return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsx)(`p`,{className:`lead`,children:w(`gc.text`)}),(0,I.jsxs)(`div`,{className:`verb-row`,children:[(0,I.jsx)(S,{kind:`primary`,busy:n===`dry`,onClick:()=>void o(`dry`),children:w(`gc.dry`)}),(0,I.jsx)(S,{busy:n===`real`,onClick:()=>void o(`real`),children:w(`gc.run`)})]}),(0,I.jsx)(`p`,{className:`lead`,children:w(`orphans.text`)}),(0,I.jsxs)(`div`,{className:`verb-row`,children:[(0,I.jsx)(S,{busy:n===`orphans_dry`,onClick:()=>void o(`orphans_dry`),children:w(`orphans.find`)}),(0,I.jsx)(S,{onClick:()=>a(!0),children:w(`orphans.remove`)})]}),(0,I.jsx)(m,{error:t.error}),!t.data&&!t.error&&(0,I.jsx)(y,{}),t.data?.items.length===0&&(0,I.jsx)(D,{title:w(`gc.none`)}),t.data?.items.map(e=>(0,I.jsx)(de,{run:e},e.id)),i&&(0,I.jsx)(N,{title:w(`orphans.remove_title`),yes:w(`orphans.remove_yes`),danger:!0,busy:n===`orphans_real`,error:null,onYes:()=>void o(`orphans_real`),onClose:()=>a(!1),children:(0,I.jsx)(`p`,{children:w(`orphans.remove_text`)})})]})}function ue(e){return e.orphans?w(e.dry_run?`orphans.was_dry`:`orphans.was_run`):w(e.dry_run?`gc.was_dry`:`gc.was_run`)}function de({run:e}){let t=e.report??{},n=t.stopped??t.error,r=e.orphans?ce:se;return(0,I.jsxs)(`article`,{className:`panel run`,children:[(0,I.jsxs)(`header`,{children:[(0,I.jsx)(`h2`,{children:T(e.requested_at)}),(0,I.jsxs)(`span`,{className:`fine`,children:[ue(e),` · `,e.requested_by?e.requested_by.username:w(`gc.by_itself`)]})]}),!e.finished_at&&(0,I.jsxs)(`p`,{children:[(0,I.jsx)(ee,{}),` `,w(`gc.running`)]}),typeof n==`string`&&(0,I.jsx)(`p`,{className:`now-trouble`,children:n}),e.finished_at&&(0,I.jsx)(`dl`,{className:`figures`,children:r.map(e=>(0,I.jsxs)(`div`,{children:[(0,I.jsx)(`dt`,{children:w(`gc.${e}`)}),(0,I.jsx)(`dd`,{children:pe(e,fe(t,e===`found_here`?`found`:e))})]},e))}),(0,I.jsx)(L,{title:w(e.orphans?`orphans.names`:`gc.due_keys`),keys:t.due}),(0,I.jsx)(L,{title:w(`gc.foreign_keys`),keys:t.foreign}),(0,I.jsx)(L,{title:w(`gc.unremembered_keys`),keys:t.unremembered})]})}function fe(e,t){return e[`${t}_count`]??e[t]}function pe(e,t){return typeof t==`number`?e===`bytes`?c(t):i(t):`–`}function L({title:e,keys:t}){return!Array.isArray(t)||!t.length?null:(0,I.jsxs)(`details`,{children:[(0,I.jsx)(`summary`,{children:e}),(0,I.jsx)(`ul`,{className:`plain-list keys`,children:t.slice(0,200).map(e=>(0,I.jsx)(`li`,{children:(0,I.jsx)(`code`,{children:String(e)})},String(e)))})]})}function R(e,t,n){let r=e&&t.includes(e.replace(/^-/,``))?e:n;return{by:r.replace(/^-/,``),isDescending:r.startsWith(`-`)}}function z(e,t){return t.by===e&&!t.isDescending?`-${e}`:e}function B(e,t,n,r){let i=t.isDescending?-1:1;return[...e].sort((e,a)=>{let o=n(e,t.by),s=n(a,t.by);return o===null||s===null?o===s?0:o===null?1:-1:typeof o==`number`&&typeof s==`number`?i*(o-s):i*r.compare(String(o),String(s))})}function V({columns:e,items:t,keyOf:n,isOff:r,sorting:i,onSort:a}){return(0,I.jsx)(`div`,{className:`scroll panel flush`,children:(0,I.jsxs)(`table`,{className:`stacks`,children:[(0,I.jsx)(`thead`,{children:(0,I.jsx)(`tr`,{children:e.map(e=>(0,I.jsx)(me,{column:e,sorting:i,onSort:a},e.name))})}),(0,I.jsx)(`tbody`,{children:t.map(t=>(0,I.jsx)(`tr`,{className:r?.(t)?`off`:``,children:e.map(({name:e,label:n,cell:r,isHeading:i})=>i?(0,I.jsx)(`th`,{scope:`row`,"data-label":n,children:r(t)},e):(0,I.jsx)(`td`,{"data-label":n,children:r(t)},e))},n(t)))})]})})}function me({column:e,sorting:t,onSort:n}){let{name:r,label:i,isSortable:a}=e;if(!i)return(0,I.jsx)(`td`,{});if(!a||!n)return(0,I.jsx)(`th`,{scope:`col`,children:i});let o=t?.by===r?t.isDescending?`descending`:`ascending`:void 0;return(0,I.jsx)(`th`,{scope:`col`,"aria-sort":o,children:(0,I.jsxs)(`button`,{type:`button`,className:`sorter`,onClick:()=>n(r),children:[i,(0,I.jsx)(`span`,{"aria-hidden":`true`,children:o===`ascending`?`↑`:o===`descending`?`↓`:`↕`})]})})}function H(t=``){return e(()=>re(`/users`,{q:t}),`users ${t}`)}var he=[`name`,`role`,`login`,`last`,`made`];function ge(e,t){switch(t){case`role`:return w(`role.${e.role}`);case`login`:return U(e);case`last`:return e.last_login_at;case`made`:return e.created_at;default:return e.username}}function U(e){return e.disabled?w(`users.disabled`):w(`users.by_${e.login}`)}function _e(){let e=C(),t=H((0,F.useDeferredValue)(e.get(`q`)?.trim()??``)),n=R(e.get(`sort`),he,`made`),[r,i]=(0,F.useState)(null),a=()=>i(null),o=()=>void t.reload();async function s(e,n){try{await j(`PATCH`,`/users/${e.id}`,{body:n}),E(w(`users.changed`,{name:e.username})),await t.reload()}catch(e){b(e)}}return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsx)(`div`,{className:`toolbar`,children:(0,I.jsx)(P,{label:w(`users.search`)})}),(0,I.jsx)(m,{error:t.error}),!t.data&&!t.error&&(0,I.jsx)(y,{}),t.data?.length===0&&(0,I.jsx)(D,{title:w(`users.none`)}),!!t.data?.length&&(0,I.jsx)(V,{columns:ve(s,i),items:B(t.data,n,ge,new Intl.Collator(p(),{numeric:!0})),keyOf:e=>e.id,isOff:e=>e.disabled,sorting:n,onSort:e=>_({sort:z(e,n)})}),(0,I.jsx)(Ce,{onMade:o}),r?.what===`password`&&(0,I.jsx)(we,{user:r.user,onClose:a}),r?.what===`delete`&&(0,I.jsx)(be,{user:r.user,onClose:a,onDone:o}),r?.what===`limits`&&(0,I.jsx)(W,{user:r.user,onClose:a,onChanged:o})]})}function ve(e,t){return[{name:`name`,label:w(`users.name`),isHeading:!0,isSortable:!0,cell:e=>e.username},{name:`role`,label:w(`users.role`),isSortable:!0,cell:t=>(0,I.jsxs)(`select`,{"aria-label":`${w(`users.role`)} ${t.username}`,value:t.role,onChange:n=>void e(t,{role:n.target.value}),children:[(0,I.jsx)(`option`,{value:`user`,children:w(`role.user`)}),(0,I.jsx)(`option`,{value:`admin`,children:w(`role.admin`)})]})},{name:`login`,label:w(`users.login`),isSortable:!0,cell:U},{name:`last`,label:w(`users.last_login`),isSortable:!0,cell:e=>e.last_login_at?l(e.last_login_at):w(`users.never`)},{name:`made`,label:w(`users.made`),isSortable:!0,cell:e=>T(e.created_at)},{name:`verbs`,label:``,cell:n=>(0,I.jsx)(ye,{user:n,change:e,ask:t})}]}function ye({user:e,change:t,ask:n}){let r=(0,I.jsxs)(`span`,{className:`hidden`,children:[` `,e.username]});return(0,I.jsxs)(`div`,{className:`verb-row end`,children:[(0,I.jsxs)(S,{kind:`quiet`,onClick:()=>n({what:`limits`,user:e}),children:[xe(e),r]}),e.login!==`oidc`&&(0,I.jsxs)(S,{kind:`quiet`,onClick:()=>n({what:`password`,user:e}),children:[w(`users.give_password`),r]}),(0,I.jsxs)(S,{kind:`quiet`,onClick:()=>n({what:`delete`,user:e}),children:[w(`verb.delete`),r]}),(0,I.jsxs)(S,{kind:`quiet`,onClick:()=>void t(e,{disabled:!e.disabled}),children:[w(e.disabled?`users.enable`:`users.disable`),r]})]})}function be({user:e,onClose:t,onDone:n}){let[r,i]=(0,F.useState)(`trash`),{busy:a,error:s,ask:c}=o();async function l(){await j(`DELETE`,`/users/${e.id}`,{query:{workspaces:r}}),E(w(`users.deleted`,{name:e.username})),n(),t()}return(0,I.jsxs)(N,{title:w(`users.delete_title`,{name:e.username}),yes:w(`verb.delete`),danger:!0,busy:a,error:s,onYes:()=>void c(l),onClose:t,children:[(0,I.jsx)(`p`,{children:w(`users.delete_text`)}),[`trash`,`purge`].map(e=>(0,I.jsxs)(`label`,{className:`check`,children:[(0,I.jsx)(`input`,{type:`radio`,checked:r===e,onChange:()=>i(e)}),(0,I.jsx)(`span`,{children:w(`users.leave_${e}`)})]},e))]})}function xe(e){return e.max_running===null?w(`users.limits`):w(`users.limits_own`,{n:e.max_running})}function W({user:e,onClose:t,onChanged:n}){let[r,i]=(0,F.useState)(e.max_running?.toString()??``),[a,s]=(0,F.useState)(e.max_workspaces?.toString()??``),{busy:c,error:l,ask:u}=o();async function f(){let i={max_running:G(r),max_workspaces:G(a)};await j(`PATCH`,`/users/${e.id}`,{body:i}),E(w(`users.changed`,{name:e.username})),n(),t()}let p=[[`users.max_running`,r,i],[`users.max_workspaces`,a,s]];return(0,I.jsxs)(N,{title:w(`users.limits_of`,{name:e.username}),yes:w(`app.save`),busy:c,error:l,onYes:()=>void u(f),onClose:t,children:[(0,I.jsx)(`p`,{children:w(`users.limits_text`)}),p.map(([e,t,n])=>(0,I.jsx)(d,{label:w(e),children:e=>(0,I.jsx)(`input`,{...e,type:`number`,min:0,max:1e6,value:t,placeholder:w(`users.limits_default`),onChange:e=>n(e.target.value)})},e))]})}function G(e){return e===``?null:Number(e)}function Se(){return[...crypto.getRandomValues(new Uint8Array(200))].filter(e=>e<248).slice(0,20).map(e=>`abcdefghjkmnpqrstuvwxyz23456789`[e%31]).join(``).replace(/(.{5})(?=.)/g,`$1-`)}function K({ids:e,value:t,onChange:n}){let[r,i]=(0,F.useState)(!1);return(0,I.jsxs)(`span`,{className:`with-button`,children:[(0,I.jsx)(`input`,{...e,type:r?`text`:`password`,value:t,autoComplete:`new-password`,onChange:e=>n(e.target.value)}),(0,I.jsx)(S,{kind:`quiet`,onClick:()=>{i(!0),n(Se())},children:w(`users.generate`)}),r&&t&&(0,I.jsx)(oe,{text:t})]})}function Ce({onMade:e}){let[t,n]=(0,F.useState)(``),[r,i]=(0,F.useState)(``),[a,c]=(0,F.useState)(`user`),{busy:l,error:u,ask:p}=o();async function h(){await s(`/users`,{username:t.trim(),role:a,password:r||null}),E(w(`users.added`,{name:t})),n(``),i(``),e()}function g(e){e.preventDefault(),p(h)}return(0,I.jsxs)(f,{title:w(`users.new`),children:[(0,I.jsxs)(`form`,{className:`inline-form`,onSubmit:g,children:[(0,I.jsx)(d,{label:w(`users.name`),children:e=>(0,I.jsx)(`input`,{...e,value:t,maxLength:64,autoComplete:`off`,onChange:e=>n(e.target.value),required:!0})}),(0,I.jsx)(d,{label:w(`login.password`),children:e=>(0,I.jsx)(K,{ids:e,value:r,onChange:i})}),(0,I.jsx)(d,{label:w(`users.role`),children:e=>(0,I.jsxs)(`select`,{...e,value:a,onChange:e=>c(e.target.value),children:[(0,I.jsx)(`option`,{value:`user`,children:w(`role.user`)}),(0,I.jsx)(`option`,{value:`admin`,children:w(`role.admin`)})]})}),(0,I.jsx)(S,{type:`submit`,kind:`primary`,icon:`plus`,busy:l,disabled:!t.trim(),children:w(`users.add`)}),(0,I.jsx)(m,{error:u})]}),(0,I.jsx)(`p`,{className:`fine`,children:w(`users.password_hint`)})]})}function we({user:e,onClose:t}){let[n,r]=(0,F.useState)(``),{busy:i,error:a,ask:s}=o();async function c(){await j(`PATCH`,`/users/${e.id}`,{body:{password:n}}),E(w(`users.changed`,{name:e.username})),t()}return(0,I.jsxs)(N,{title:w(`users.password_of`,{name:e.username}),yes:w(`users.give_password`),ready:n!==``,busy:i,error:a,onYes:()=>void s(c),onClose:t,children:[(0,I.jsx)(`p`,{children:w(`users.password_text`)}),(0,I.jsx)(d,{label:w(`password.new`),hint:w(`password.hint`),children:e=>(0,I.jsx)(K,{ids:e,value:n,onChange:r})})]})}var Te=g(`audit`).filter(e=>e.includes(`.`)),Ee=[`user`,`action`,`since`,`until`];function De(){let n=C(),r=Object.fromEntries(Ee.map(e=>[e,n.get(e)??``])),i=R(n.get(`sort`),[`when`],`-when`),[a,o]=(0,F.useState)([]),s=a.at(-1)??null,c=Ae(r),l=i.isDescending?`newest`:`oldest`,u=e(()=>A(`/admin/audit`,{...c,order:l,cursor:s,limit:50}),`audit ${s} ${l} ${JSON.stringify(c)}`,s?0:5e3);function d(e){_(e),o([])}return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsx)(Oe,{narrowed:r,narrow:d,csv:t(`/admin/audit.csv`,c)}),(0,I.jsx)(m,{error:u.error}),!u.data&&!u.error&&(0,I.jsx)(y,{}),u.data&&(0,I.jsx)(V,{columns:ke(),items:u.data.items,keyOf:e=>e.id,sorting:i,onSort:e=>d({sort:z(e,i)})}),u.data&&(0,I.jsx)(O,{cursors:a,next:u.data.next_cursor,turn:o})]})}function Oe({narrowed:e,narrow:t,csv:n}){let r=H();return(0,I.jsxs)(`div`,{className:`toolbar filters`,children:[(0,I.jsxs)(`label`,{children:[w(`audit.who`),(0,I.jsxs)(`select`,{value:e.user,onChange:e=>t({user:e.target.value}),children:[(0,I.jsx)(`option`,{value:``,children:w(`audit.anybody`)}),r.data?.map(e=>(0,I.jsx)(`option`,{value:e.id,children:e.username},e.id))]})]}),(0,I.jsxs)(`label`,{children:[w(`audit.what`),(0,I.jsxs)(`select`,{value:e.action,onChange:e=>t({action:e.target.value}),children:[(0,I.jsx)(`option`,{value:``,children:w(`audit.anything`)}),Te.map(e=>(0,I.jsx)(`option`,{value:e,children:k(`audit`,e)},e))]})]}),(0,I.jsxs)(`label`,{children:[w(`audit.since`),(0,I.jsx)(`input`,{type:`date`,value:e.since,onChange:e=>t({since:e.target.value})})]}),(0,I.jsxs)(`label`,{children:[w(`audit.until`),(0,I.jsx)(`input`,{type:`date`,value:e.until,onChange:e=>t({until:e.target.value})})]}),(0,I.jsxs)(`a`,{className:`button plain`,href:n,download:!0,children:[(0,I.jsx)(h,{name:`download`}),w(`audit.csv`)]})]})}function ke(){return[{name:`when`,label:w(`audit.when`),isSortable:!0,cell:e=>T(e.at)},{name:`who`,label:w(`audit.who`),cell:e=>e.user?.username??w(`audit.system`)},{name:`what`,label:w(`audit.what`),cell:e=>(0,I.jsxs)(I.Fragment,{children:[k(`audit`,e.action)??e.action,` `,e.workspace_id&&(0,I.jsx)(x,{href:`/workspaces/${e.workspace_id}`,children:e.workspace_name??w(`audit.workspace`)}),(0,I.jsx)(`span`,{className:`fine details`,children:je(e)})]})},{name:`where`,label:w(`audit.where`),cell:e=>(0,I.jsx)(`span`,{className:`fine`,children:e.address})}]}function Ae(e){let t=e.since&&new Date(`${e.since}T00:00`).toISOString(),n=e.until?new Date(`${e.until}T00:00`):null;return n?.setDate(n.getDate()+1),{user:e.user,action:e.action,since:t,until:n?.toISOString()??``}}function je(e){return Object.entries(e.details).filter(([,e])=>e!==null&&e!==!1).map(([t,n])=>`${t}: ${e.names[t]??(Array.isArray(n)?n.join(`, `):String(n))}`).join(` · `)}var Me=[24,168,720];function Ne(){let[t,n]=(0,F.useState)(24),r=e(()=>A(`/admin/figures`,{hours:t}),`figures ${t}`,6e4);return(0,I.jsxs)(f,{title:w(`figures.title`),actions:(0,I.jsxs)(`label`,{children:[(0,I.jsx)(`span`,{className:`hidden`,children:w(`figures.period`)}),(0,I.jsx)(`select`,{value:t,onChange:e=>n(Number(e.target.value)),children:Me.map(e=>(0,I.jsx)(`option`,{value:e,children:e>24?v(`figures.days`,e/24):v(`figures.hours`,e)},e))})]}),children:[(0,I.jsx)(m,{error:r.error}),!r.data&&!r.error&&(0,I.jsx)(y,{}),r.data&&(0,I.jsx)(Pe,{figures:r.data})]})}function Pe({figures:e}){let t=n(),a=t-e.hours*36e5,o={from:a,to:t,none:w(`figures.none`)},s=e=>e.map(e=>Math.max(a,Date.parse(e.at)));return(0,I.jsxs)(`div`,{className:`charts`,children:[(0,I.jsx)(M,{...o,title:w(`figures.workspaces`),stacked:!0,whole:!0,times:s(e.phases),series:[{name:r(`RUNNING`),tone:`phase-running`,values:e.phases.map(e=>e.running)},{name:r(`STANDBY`),tone:`phase-standby`,values:e.phases.map(e=>e.standby)},{name:r(`ARCHIVED`),tone:`phase-archived`,values:e.phases.map(e=>e.archived)},{name:r(`ERROR`),tone:`phase-error`,values:e.phases.map(e=>e.error)}],format:e=>i(Math.round(e*10)/10)}),(0,I.jsx)(M,{...o,whole:!0,title:w(`figures.archives`),none:w(`figures.archives_none`),times:s(e.archives),series:[{name:w(`gc.bytes`),tone:`phase-archived`,values:e.archives.map(e=>e.bytes)}],format:c}),(0,I.jsx)(q,{...o,title:w(`figures.starts`),points:e.starts,times:s(e.starts)}),(0,I.jsx)(q,{...o,title:w(`figures.restores`),points:e.restores,times:s(e.restores)})]})}function q({points:e,...t}){return(0,I.jsx)(M,{...t,series:[{name:w(`figures.p50`),tone:`phase-running`,values:e.map(e=>e.p50_ms/1e3)},{name:w(`figures.p95`),tone:`phase-standby`,values:e.map(e=>e.p95_ms/1e3)}],format:e=>e.toFixed(+(e<10))})}function Fe(e,t){let n=e.split(`
`),r=n.indexOf(`### ${t}`);if(r<0)return null;let i=n.slice(r+1).findIndex(e=>e.startsWith(`#`)),a=i<0?n.length:r+1+i;return n.slice(r+1,a).join(`
`).trim().replace(/(?<!\n)\n(?!\n)/g,` `).replace(/\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)/g,"`docs/$2`")}function Ie(){let t=e(()=>A(`/admin/health`),`health`,5e3);return(0,I.jsxs)(f,{title:w(`health.title`),actions:t.data&&(0,I.jsx)(`span`,{className:`fine`,children:w(`health.version`,{version:t.data.version})}),children:[(0,I.jsx)(m,{error:t.error}),!t.data&&!t.error&&(0,I.jsx)(y,{}),t.data&&(0,I.jsx)(Re,{health:t.data})]})}var Le={ok:`up`,warning:`warned`,failed:`down`};function Re({health:e}){return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsx)(`p`,{children:w(e.ready?`health.all_up`:`health.some_down`)}),(0,I.jsx)(`ul`,{className:`plain-list health`,children:e.dependencies.map(e=>{let t=e.state===`down`?`down`:e.detail?`warned`:`up`,n=e.code??null,r=w(`health.${t}`);return(0,I.jsx)(J,{name:e.name,state:t,words:r,told:[e.detail],code:n},e.name)})}),(0,I.jsx)(`h3`,{children:w(`health.findings`)}),(0,I.jsx)(`ul`,{className:`plain-list health findings`,children:e.findings.map(e=>{let t=e.code?[e.detail,e.advice]:[],n=`${e.check} ${e.detail}`,r=Le[e.state],i=w(r===`warned`?`health.noticed`:`health.${r}`);return(0,I.jsx)(J,{name:e.check,state:r,words:i,told:t,code:e.code},n)})}),(0,I.jsxs)(`details`,{children:[(0,I.jsx)(`summary`,{children:w(`health.isolation`)}),Object.entries(e.isolation).map(([e,t])=>(0,I.jsxs)(`div`,{className:`isolation`,children:[(0,I.jsx)(`h3`,{children:e}),(0,I.jsx)(`ul`,{lang:`en`,children:t.map(e=>(0,I.jsx)(`li`,{children:e},e))})]},e))]})]})}function J({name:e,state:t,words:n,told:r,code:i}){let a=i&&Fe(`# Runbook

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
what stands by is archived, and of what runs, one workspace after the other is stopped: whose home grows fastest, after a
minute whose is the largest ([ADR 21](adr/0021-disk-reserve.md)). The same where room for files runs out (\`df -i\`).
\`PROCESS_HOME_QUOTA\` gives each home a size.
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

### CH-DB-5

**A restore has not adopted newer archives yet.** \`codehub restore\` was ended after the database was back and before every
newer archive was read, or the store, or an archive, could not be read. Rows may name older homes than the store has, so
until this is settled no such home is restored or created: their owners wait; what runs goes on, what stopped starts again.
Stop every CodeHub that uses the database, then run, with the same settings,

\`\`\`console
$ codehub restore --adopt-newer
\`\`\`

and start CodeHub again. It reads the archives that it has not read, and may be ended and run again. An archive that will
never be readable: \`codehub restore --no-adopt-newer\` lets the workspaces go on with what their rows name; GC keeps the
newer archives all the same ([backup.md](backup.md#what-the-report-says)).

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
\`degraded\`. Correct the setting, or bring the archives back; everything goes on within seconds after those that were found
missing are back. A few of them that are not back become errors one by one. What is lost for good: \`codehub accept-losses archives\`. The leader then lists the store once; the workspaces whose archives are missing at that
moment become errors (ArchiveAccessError), which can be recovered with a blank home, or from the archive should it come back;
those in the trash are gone.

### CH-STO-4

**The archive store has another owner.** The marker in it (\`.codehub-owner\`) is not of this installation's making, or two
installations both take the store for theirs: a machine was cloned, a backup was restored on a second one, or the database
went back in time. Each would remove archives that are homes of the other, so neither GC nor "Delete for good" removes anything
([ADR 25](adr/0025-store-owner.md)); everything else goes on. The finding says who marked it last, and when. Decide which one
is to have the store. Stop the other one, or give it an \`ARCHIVE_URL\` or \`ARCHIVE_PREFIX\` of its own with a copy of the
archives. Then, with the settings of the one that keeps it:

\`\`\`console
$ codehub take-over
\`\`\`

The same is needed once after CodeHub moved to another PostgreSQL server.

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
server refused a dry run; its words say why (a quota, a security rule, a storage class). While CodeHub runs the check is
repeated every four minutes until it passes; \`codehub doctor\` makes it at once.

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
`,i);return(0,I.jsxs)(`li`,{className:t,children:[(0,I.jsx)(`strong`,{children:k(`health`,e)??e}),(0,I.jsx)(`span`,{children:n}),r.filter(Boolean).map(e=>(0,I.jsx)(`p`,{className:`fine`,lang:`en`,children:e},e)),a&&(0,I.jsxs)(`details`,{children:[(0,I.jsx)(`summary`,{children:w(`health.runbook`,{code:i})}),(0,I.jsx)(`div`,{lang:`en`,children:(0,I.jsx)(ie,{text:a})})]})]})}var Y=[`max_running_per_user`,`max_running_global`,`max_workspaces_per_user`];function ze({limits:e,reload:t}){let[n,r]=(0,F.useState)(!1);return(0,I.jsxs)(`details`,{open:n,onToggle:e=>r(e.currentTarget.open),children:[(0,I.jsx)(`summary`,{children:w(`limits.change`)}),n&&(0,I.jsx)(Be,{limits:e,reload:t})]})}function Be({limits:e,reload:t}){let[n,r]=(0,F.useState)(()=>Ve(e)),{busy:i,error:a,ask:s}=o();async function c(){let e=Object.fromEntries(Y.map(e=>[e,n[e]===``?null:Number(n[e])]));await j(`PUT`,`/admin/limits`,{body:e}),E(w(`limits.changed`)),await t()}function l(e){e.preventDefault(),s(c)}return(0,I.jsxs)(`form`,{className:`form`,onSubmit:l,children:[Y.map(t=>(0,I.jsx)(d,{label:w(`limits.${t}`),children:i=>(0,I.jsx)(`input`,{...i,type:`number`,min:1,max:1e6,value:n[t],placeholder:w(`limits.configured`,{n:e.configured[t]??0}),onChange:e=>r({...n,[t]:e.target.value})})},t)),(0,I.jsx)(`p`,{className:`fine`,children:w(`limits.text`)}),(0,I.jsx)(m,{error:a}),(0,I.jsx)(`footer`,{children:(0,I.jsx)(S,{type:`submit`,kind:`primary`,busy:i,children:w(`app.save`)})})]})}function Ve(e){let t=Y.map(t=>[t,e.set[t]?.toString()??``]);return Object.fromEntries(t)}function He(){return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsxs)(`div`,{className:`columns even`,children:[(0,I.jsx)(Ie,{}),(0,I.jsx)(Ue,{})]}),(0,I.jsx)(Ne,{})]})}function Ue(){let t=e(()=>A(`/admin/limits`),`limits`,5e3);return(0,I.jsxs)(f,{title:w(`limits.title`),children:[(0,I.jsx)(m,{error:t.error}),!t.data&&!t.error&&(0,I.jsx)(y,{}),t.data&&(0,I.jsxs)(I.Fragment,{children:[(0,I.jsx)(X,{label:w(`limits.total`),value:t.data.total.running,limit:t.data.total.limit}),t.data.users.filter(e=>e.running>0).map(e=>(0,I.jsx)(X,{label:e.user.username,value:e.running,limit:e.limit},e.user.id)),(0,I.jsx)(ze,{limits:t.data,reload:t.reload})]})]})}function X({label:e,value:t,limit:n}){return(0,I.jsxs)(`div`,{className:`meter`,children:[(0,I.jsx)(`span`,{children:e}),(0,I.jsx)(`meter`,{"aria-label":e,min:0,max:Math.max(1,n),high:n*.9,value:t}),(0,I.jsx)(`span`,{children:w(`limits.of`,{n:t,limit:n})})]})}var Z=[`RUNNING`,`STANDBY`,`ARCHIVED`,`PENDING`,`ERROR`],Q=5e3,We=[`name`,`owner`,`state`,`image`,`used`];function Ge(){let t=C(),n=Z.find(e=>e===t.get(`show`))??``,i=R(t.get(`sort`),We,`-used`),[a,o]=(0,F.useState)([]),s=(0,F.useDeferredValue)(t.get(`q`)?.trim()??``),c=a.at(-1)??null,l=`${i.isDescending?`-`:``}${i.by}`,u=e(()=>A(`/admin/workspaces`,{q:s,phase:n,sort:l,cursor:c,limit:50}),`${s} ${n} ${l} ${c}`,Q),d=u.data?.next_cursor;function f(e){_(e),o([])}return(0,I.jsxs)(I.Fragment,{children:[(0,I.jsxs)(`div`,{className:`toolbar`,children:[(0,I.jsx)(P,{label:w(`list.search`),onSearch:()=>o([])}),(0,I.jsxs)(`label`,{className:`sort`,children:[(0,I.jsx)(`span`,{className:`hidden`,children:w(`list.narrow`)}),(0,I.jsxs)(`select`,{value:n,onChange:e=>f({show:e.target.value}),children:[(0,I.jsx)(`option`,{value:``,children:w(`list.all`)}),Z.map(e=>(0,I.jsx)(`option`,{value:e,children:r(e)},e))]})]})]}),(0,I.jsx)(m,{error:u.error}),!u.data&&!u.error&&(0,I.jsx)(y,{}),u.data&&!u.data.items.length&&(0,I.jsx)(D,{title:w(`list.none`)}),u.data&&u.data.items.length>0&&(0,I.jsx)(V,{columns:Ke(),items:u.data.items,keyOf:e=>e.id,sorting:i,onSort:e=>f({sort:z(e,i)})}),(d||a.length>0)&&(0,I.jsx)(O,{cursors:a,next:d,turn:o})]})}function Ke(){return[{name:`name`,label:w(`create.name`),isHeading:!0,isSortable:!0,cell:e=>(0,I.jsx)(x,{href:`/workspaces/${e.id}`,children:e.name})},{name:`owner`,label:w(`users.name`),isSortable:!0,cell:e=>e.owner.username},{name:`state`,label:w(`admin.state`),isSortable:!0,cell:e=>(0,I.jsx)(u,{workspace:e})},{name:`image`,label:w(`create.image`),isSortable:!0,cell:e=>(0,I.jsxs)(I.Fragment,{children:[e.image_ref,` `,(0,I.jsx)(`span`,{className:`fine`,children:e.backend})]})},{name:`used`,label:w(`admin.used`),isSortable:!0,cell:e=>e.last_access_at?l(e.last_access_at):w(`time.never`)}]}function qe(){let t=e(()=>A(`/admin/workspaces`,{phase:`ERROR`,limit:100}),`errors`,Q);return t.data?t.data.items.length?(0,I.jsx)(I.Fragment,{children:t.data.items.map(e=>(0,I.jsxs)(`article`,{className:`error-item`,children:[(0,I.jsxs)(`p`,{children:[(0,I.jsx)(x,{href:`/workspaces/${e.id}`,className:`row-name`,children:e.name}),` `,(0,I.jsx)(`span`,{className:`fine`,children:w(`workspace.owner`,{name:e.owner.username})})]}),(0,I.jsx)(ae,{isAdmin:!0,workspace:e,reload:t.reload})]},e.id))}):(0,I.jsx)(D,{title:w(`errors.none`)}):t.error?(0,I.jsx)(m,{error:t.error}):(0,I.jsx)(y,{})}var $={"/admin":He,"/admin/workspaces":Ge,"/admin/errors":qe,"/admin/users":_e,"/admin/archives":le,"/admin/audit":De};function Je({path:e}){ne(w(`nav.admin`));let t=e.replace(/\/$/,``),n=t in $?$[t]:null;return(0,I.jsxs)(`main`,{children:[(0,I.jsx)(`div`,{className:`page-head`,children:(0,I.jsx)(`h1`,{children:w(`nav.admin`)})}),(0,I.jsx)(`nav`,{className:`tabs`,"aria-label":w(`nav.admin`),children:Object.keys($).map(e=>(0,I.jsx)(x,{href:e,"aria-current":e===t?`page`:void 0,children:w(`admin.${e===`/admin`?`overview`:e.slice(7)}`)},e))}),n?(0,I.jsx)(n,{}):(0,I.jsx)(D,{title:w(`app.nowhere`)})]})}export{Je as default};