"""Names and partition keys of the partitioned TPC-DS tables."""

from __future__ import annotations

from collections.abc import Mapping

FACTS: Mapping[str, str] = {
    "catalog_returns": "cr_returned_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "inventory": "inv_date_sk",
    "store_returns": "sr_returned_date_sk",
    "store_sales": "ss_sold_date_sk",
    "web_returns": "wr_returned_date_sk",
    "web_sales": "ws_sold_date_sk",
}
"""Partition key of each fact table. It is a day. Dimensions are not partitioned."""
