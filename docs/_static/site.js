"use strict";
// A page opened from disk cannot read other pages, so the search shows titles without excerpts there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The search lists decisions and generated reference after the pages that explain. The other scores are Sphinx's own.
var Scorer = {
  score: ([page, , , , score]) => (/^(decisions\/|reference\/(api\/|cli$|json-api$))/.test(page) ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
