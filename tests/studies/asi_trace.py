"""A small trace in the tables of cluster-trace-gpu-v2026: two hours of three servers, made up; counts by hand."""

from pathlib import Path

PODS = """\
pod_id,workload_id,server_id,cluster_id,state_public,gpu_spec_public,server_gpu_count,server_cpu_capacity_cores,\
priority_class,job_type_public,model_type_public,is_genai_request,gpu_request,gpu_mem_request,cpu_request_cores,\
used_gpu_hours,avg_gpu_sm_util,avg_gpu_mem_gib,avg_cpu_request_util,avg_memory_util,ready_status,schedule_delay_sec
p1,w1,s1,c,Running,H20,8,192,HP,training,genai,true,4,384,48,4,320,80,0.5,0.4,true,1
p2,w1,s2,c,Running,H20,8,192,HP,training,genai,true,4,384,48,4,240,80,0.25,0.4,true,1
p3,w2,s1,c,Standby,H20,8,192,HP,online_inference,rec,false,4,384,32,4,0,10,0,0.1,true,1
p4,w3,s1,c,Running,H20,8,192,LP,offline_inference,genai,true,2,192,16,2,100,60,0.9,0.6,true,1
p5,w4,s3,c,Running,A10,1,128,HP,online_inference,cv,false,0.5,12,24,0.5,5,6,0.7,0.2,true,1
p6,,s3,c,Running,A10,1,128,HP,unknown,unknown,false,0.25,6,4,0.25,1,2,0.1,0.1,false,1
p7,w5,s3,c,Running,A10,1,128,HP,other,unknown,false,0,0,8,,,,0.1,0.1,true,1
"""
SECOND = """\
p1,w1,s1,c,Running,H20,8,192,HP,training,genai,true,4,384,48,4,400,80,0.5,0.4,true,1
p8,w2,s2,c,Running,H20,8,192,HP,online_inference,rec,false,8,768,64,8,80,20,0.3,0.1,true,1
"""
SERVERS = """\
server_id,cluster_id,asw_id,gpu_spec_public,gpu_count,cpu_capacity_cores
s1,c,a1,H20,8,192
s2,c,a1,H20,8,192
s3,c,a2,A10,1,128
"""
NETWORK = "server_id,rx_gibps_avg,tx_gibps_avg\ns1,2.5,1.5\ns2,4,0.0005\ns3,9,9\n"
RUNS = """\
pod_id,workload_id,server_id,gpu_spec_public,priority_class,job_type_public,model_type_public,is_genai_request,\
gpu_request,duration_hours
p1,w1,s1,H20,HP,training,genai,true,4,2
p2,w1,s2,H20,HP,training,genai,true,4,6
p5,w4,s3,A10,HP,online_inference,cv,false,0.5,10
p6,,s3,A10,HP,unknown,unknown,false,0.25,1
p9,w9,s3,A10,HP,dev,dev,false,0,100
p0,w0,s3,A10,HP,dev,dev,false,1,
"""


def write_trace(folder: Path) -> Path:
    """The trace in partitions, hours 0 and 1 of day 109."""
    header = PODS.splitlines()[0]
    for table, first, second in (
        ("pod_hourly", PODS, f"{header}\n{SECOND}"),
        ("server_hourly", SERVERS, SERVERS),
        ("network_hourly", NETWORK, NETWORK),
    ):
        for hour, text in (("00", first), ("02", second)):
            part = folder / f"asi_opensource_{table}" / "day=109" / f"hour={hour}" / "part-000.csv"
            part.parent.mkdir(parents=True)
            part.write_text(text)
    (folder / "job_execution_summary.csv").write_text(RUNS)
    return folder


JOBS = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
1,13,A10,20,1,1,0,7200,HP
2,13,A10,8,0.5,2,1800,3600,HP
3,57,H800,96,8,4,3600,5400,Spot
"""
NODES = "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,0\nA10,1,128,1\nH800,8,192,2\n"


def write_job_list(folder: Path) -> Path:
    """Three jobs and three nodes in the columns of the spot trace."""
    folder.mkdir(exist_ok=True)
    (folder / "job_info_df.csv").write_text(JOBS)
    (folder / "node_info.csv").write_text(NODES)
    return folder
