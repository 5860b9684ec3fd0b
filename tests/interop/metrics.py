# Reads metrics with the reader of Prometheus' own client, which shares no code with what wrote them; prints them as JSON.
import json
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
    kind = answer.headers["Content-Type"]
    text = answer.read().decode("utf-8")
families = {}
for family in text_string_to_metric_families(text):
    assert family.name not in families, f"{family.name} comes twice"
    assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
    families[family.name] = {
        "type": family.type,
        "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
    }
json.dump({"kind": kind, "families": families}, sys.stdout)
