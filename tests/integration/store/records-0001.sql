-- Records as the first version wrote them; `test_migrations.py` says of what.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE allocations (
	attempt TEXT NOT NULL, 
	gpu_uuid TEXT NOT NULL, 
	node TEXT NOT NULL, 
	"exclusive" INTEGER NOT NULL, 
	PRIMARY KEY (attempt, gpu_uuid), 
	FOREIGN KEY(attempt) REFERENCES attempts (id)
)
 WITHOUT ROWID

;
INSERT INTO "allocations" VALUES('a3','node-a-gpu-0','node-a',1);
INSERT INTO "allocations" VALUES('a3','node-a-gpu-1','node-a',1);
CREATE TABLE attempts (
	id TEXT NOT NULL, 
	task_id INTEGER NOT NULL, 
	element INTEGER NOT NULL, 
	ordinal INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	allocation TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	spool_id TEXT NOT NULL, 
	launch_number INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	placed_us INTEGER NOT NULL, 
	started_us INTEGER, 
	ended_us INTEGER, 
	"end" TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (task_id, element, ordinal), 
	FOREIGN KEY(task_id, element) REFERENCES tasks (id, element)
)
 WITHOUT ROWID

;
INSERT INTO "attempts" VALUES('a3',3,-1,1,'node-a','{"node":"node-a","gpus":[{"index":0,"uuid":"node-a-gpu-0"},{"index":1,"uuid":"node-a-gpu-1"}],"cpus":0,"memory_mib":0}','boot-1','spool-1',1,1,1794744001000000,1794744002000000,NULL,NULL);
INSERT INTO "attempts" VALUES('a4',4,-1,1,'node-a','{"node":"node-a","gpus":[{"index":2,"uuid":"node-a-gpu-2"}],"cpus":0,"memory_mib":0}','boot-1','spool-1',2,1,1794744001000000,1794744002000000,1794744003000000,'{"outcome":"succeeded","reason":"exit_zero","detail":"","exit_code":0,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null}');
INSERT INTO "attempts" VALUES('a5',5,-1,1,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',3,1,1794744001000000,NULL,1794744002000000,NULL);
INSERT INTO "attempts" VALUES('a6',6,-1,1,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',5,1,1794744001000000,NULL,1794744002000000,NULL);
INSERT INTO "attempts" VALUES('a7',7,-1,1,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',7,1,1794744001000000,NULL,1794744002000000,NULL);
INSERT INTO "attempts" VALUES('b5',5,-1,2,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',4,1,1794744001000000,NULL,1794744003000000,NULL);
INSERT INTO "attempts" VALUES('b6',6,-1,2,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',6,1,1794744001000000,1794744002000000,NULL,NULL);
INSERT INTO "attempts" VALUES('b7',7,-1,2,'node-a','{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0}','boot-1','spool-1',8,1,1794744001000000,NULL,1794744003000000,'{"outcome":"lost","reason":"rebooted","detail":"","exit_code":null,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null}');
CREATE TABLE events (
	seq INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	element INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	at_us INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	body TEXT NOT NULL, 
	spec TEXT, 
	PRIMARY KEY (seq), 
	UNIQUE (task_id, element, version)
);
INSERT INTO "events" VALUES(1,1,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":1}','{"command":["true"],"name":"训练","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(2,2,-1,1,1794744000000000,'Submitted','{"owner":"bob","position":2}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":true}');
INSERT INTO "events" VALUES(3,3,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":3}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":2,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(4,3,-1,2,1794744001000000,'Placed','{"attempt":"a3","allocation":{"node":"node-a","gpus":[{"index":0,"uuid":"node-a-gpu-0"},{"index":1,"uuid":"node-a-gpu-1"}],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":1,"epoch":1}',NULL);
INSERT INTO "events" VALUES(5,3,-1,3,1794744002000000,'Started','{"attempt":"a3"}',NULL);
INSERT INTO "events" VALUES(6,4,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":4}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":1,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(7,4,-1,2,1794744001000000,'Placed','{"attempt":"a4","allocation":{"node":"node-a","gpus":[{"index":2,"uuid":"node-a-gpu-2"}],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":2,"epoch":1}',NULL);
INSERT INTO "events" VALUES(8,4,-1,3,1794744002000000,'Started','{"attempt":"a4"}',NULL);
INSERT INTO "events" VALUES(9,4,-1,4,1794744003000000,'Ended','{"end":{"outcome":"succeeded","reason":"exit_zero","detail":"","exit_code":0,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null},"attempt":"a4","by":""}',NULL);
INSERT INTO "events" VALUES(10,5,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":5}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(11,5,-1,2,1794744001000000,'Placed','{"attempt":"a5","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":3,"epoch":1}',NULL);
INSERT INTO "events" VALUES(12,5,-1,3,1794744002000000,'Requeued','{"attempt":"a5","end":null}',NULL);
INSERT INTO "events" VALUES(13,5,-1,4,1794744001000000,'Placed','{"attempt":"b5","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":4,"epoch":1}',NULL);
INSERT INTO "events" VALUES(14,5,-1,5,1794744003000000,'Requeued','{"attempt":"b5","end":null}',NULL);
INSERT INTO "events" VALUES(15,6,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":6}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(16,6,-1,2,1794744001000000,'Placed','{"attempt":"a6","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":5,"epoch":1}',NULL);
INSERT INTO "events" VALUES(17,6,-1,3,1794744002000000,'Requeued','{"attempt":"a6","end":null}',NULL);
INSERT INTO "events" VALUES(18,6,-1,4,1794744001000000,'Placed','{"attempt":"b6","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":6,"epoch":1}',NULL);
INSERT INTO "events" VALUES(19,6,-1,5,1794744002000000,'Started','{"attempt":"b6"}',NULL);
INSERT INTO "events" VALUES(20,6,-1,6,1794744004000000,'StopRequested','{"by":"bob","cause":"cancel"}',NULL);
INSERT INTO "events" VALUES(21,7,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":7}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(22,7,-1,2,1794744001000000,'Placed','{"attempt":"a7","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":7,"epoch":1}',NULL);
INSERT INTO "events" VALUES(23,7,-1,3,1794744002000000,'Requeued','{"attempt":"a7","end":null}',NULL);
INSERT INTO "events" VALUES(24,7,-1,4,1794744001000000,'Placed','{"attempt":"b7","allocation":{"node":"node-a","gpus":[],"cpus":0,"memory_mib":0},"incarnation":{"boot_id":"boot-1","spool_id":"spool-1"},"launch_number":8,"epoch":1}',NULL);
INSERT INTO "events" VALUES(25,7,-1,5,1794744003000000,'Requeued','{"attempt":"b7","end":{"outcome":"lost","reason":"rebooted","detail":"","exit_code":null,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null}}',NULL);
INSERT INTO "events" VALUES(26,8,-1,1,1794744000000000,'Submitted','{"owner":"ana","position":8}','{"command":["true"],"name":"","description":"","workdir":"/tmp","env":{},"environment":"","stdout":"","stderr":"merge","gpus":0,"gpu_ids":[],"gpu_id_args":"","gpu_model":[],"mode":"exclusive","gpu_memory_mib":null,"gpu_free_percent":null,"cpus":null,"memory_mib":null,"nodes":1,"node":"","queue":"","urgent":false,"priority":0,"time_limit_s":null,"grace_s":10,"lease_s":null,"after":[],"start_after":"","retries":0,"requeue_on_loss":false,"array":"","sweep":{},"notify":[],"hold":false}');
INSERT INTO "events" VALUES(27,8,-1,2,1794744001000000,'Held','{"by":"ana"}',NULL);
INSERT INTO "events" VALUES(28,8,-1,3,1794744002000000,'Ended','{"end":{"outcome":"cancelled","reason":"cancelled","detail":"","exit_code":null,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null},"attempt":null,"by":"ana"}',NULL);
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
)
 WITHOUT ROWID

;
INSERT INTO "meta" VALUES('database','5b7b6119a63f77a4798b67dac116fa5b');
INSERT INTO "meta" VALUES('epoch','0');
CREATE TABLE tasks (
	id INTEGER NOT NULL, 
	element INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	state TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	spec_seq INTEGER NOT NULL, 
	submitted_us INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	attempt TEXT, 
	node TEXT, 
	gpu_ids TEXT NOT NULL, 
	started_us INTEGER, 
	finished_us INTEGER, 
	stop_cause TEXT, 
	stopped_by TEXT, 
	outcome TEXT, 
	reason TEXT, 
	"end" TEXT, 
	shown TEXT NOT NULL, 
	why TEXT, 
	PRIMARY KEY (id, element)
)
 WITHOUT ROWID

;
INSERT INTO "tasks" VALUES(1,-1,'ana','QUEUED',1,1,'训练',1,1794744000000000,0,NULL,NULL,'[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"id":"1","owner":"ana","state":"QUEUED","version":1,"submitted_at":"2026-11-15T12:00:00Z","attempts":0,"started_at":null,"finished_at":null,"node":null,"gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":null}',NULL);
INSERT INTO "tasks" VALUES(2,-1,'bob','HELD',1,2,'',2,1794744000000000,0,NULL,NULL,'[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"id":"2","owner":"bob","state":"HELD","version":1,"submitted_at":"2026-11-15T12:00:00Z","attempts":0,"started_at":null,"finished_at":null,"node":null,"gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":null}',NULL);
INSERT INTO "tasks" VALUES(3,-1,'ana','RUNNING',3,3,'',3,1794744000000000,1,'a3','node-a','[0,1]',1794744002000000,NULL,NULL,NULL,NULL,NULL,NULL,'{"id":"3","owner":"ana","state":"RUNNING","version":3,"submitted_at":"2026-11-15T12:00:00Z","attempts":1,"started_at":"2026-11-15T12:00:02Z","finished_at":null,"node":"node-a","gpu_ids":[0,1],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":null}',NULL);
INSERT INTO "tasks" VALUES(4,-1,'ana','FINISHED',4,4,'',6,1794744000000000,1,'a4','node-a','[2]',1794744002000000,1794744003000000,NULL,NULL,'succeeded','exit_zero','{"outcome":"succeeded","reason":"exit_zero","detail":"","exit_code":0,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null}','{"id":"4","owner":"ana","state":"FINISHED","version":4,"submitted_at":"2026-11-15T12:00:00Z","attempts":1,"started_at":"2026-11-15T12:00:02Z","finished_at":"2026-11-15T12:00:03Z","node":"node-a","gpu_ids":[2],"outcome":"succeeded","reason":"exit_zero","exit_code":0,"signal":null,"stopped_by":null}','["exit_zero","",0,null,null,null]');
INSERT INTO "tasks" VALUES(5,-1,'ana','QUEUED',5,5,'',10,1794744000000000,2,'b5',NULL,'[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"id":"5","owner":"ana","state":"QUEUED","version":5,"submitted_at":"2026-11-15T12:00:00Z","attempts":2,"started_at":null,"finished_at":null,"node":null,"gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":null}',NULL);
INSERT INTO "tasks" VALUES(6,-1,'ana','STOPPING',6,6,'',15,1794744000000000,2,'b6','node-a','[]',1794744002000000,NULL,'cancel','bob',NULL,NULL,NULL,'{"id":"6","owner":"ana","state":"STOPPING","version":6,"submitted_at":"2026-11-15T12:00:00Z","attempts":2,"started_at":"2026-11-15T12:00:02Z","finished_at":null,"node":"node-a","gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":"bob"}',NULL);
INSERT INTO "tasks" VALUES(7,-1,'ana','QUEUED',5,7,'',21,1794744000000000,2,'b7',NULL,'[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"id":"7","owner":"ana","state":"QUEUED","version":5,"submitted_at":"2026-11-15T12:00:00Z","attempts":2,"started_at":null,"finished_at":null,"node":null,"gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,"stopped_by":null}',NULL);
INSERT INTO "tasks" VALUES(8,-1,'ana','FINISHED',3,8,'',26,1794744000000000,0,NULL,NULL,'[]',NULL,1794744002000000,NULL,'ana','cancelled','cancelled','{"outcome":"cancelled","reason":"cancelled","detail":"","exit_code":null,"signal":null,"ran_s":null,"cpu_s":null,"max_rss_mib":null}','{"id":"8","owner":"ana","state":"FINISHED","version":3,"submitted_at":"2026-11-15T12:00:00Z","attempts":0,"started_at":null,"finished_at":"2026-11-15T12:00:02Z","node":null,"gpu_ids":[],"outcome":"cancelled","reason":"cancelled","exit_code":null,"signal":null,"stopped_by":"ana"}','["cancelled","",null,null,"ana",null]');
CREATE INDEX tasks_unfinished ON tasks (state, position) WHERE state <> 'FINISHED';
CREATE INDEX tasks_finished ON tasks (finished_us, id, element) WHERE finished_us IS NOT NULL;
CREATE INDEX attempts_launches ON attempts (node, launch_number);
CREATE UNIQUE INDEX allocations_exclusive ON allocations (node, gpu_uuid) WHERE exclusive = 1;
COMMIT;
