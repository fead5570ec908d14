"use strict";
// Shows the claims that fit the filters; everything is on the page already.
(() => {
  const byId = (id) => document.getElementById(id);
  const claims = [...document.querySelectorAll(".claim")];
  const sections = [...document.querySelectorAll("section[data-family]")];
  const texts = new Map(claims.map((claim) => [claim, claim.textContent.toLowerCase()]));

  const filter = () => {
    const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = byId("verdict").value;
    const family = byId("family").value;
    let shown = 0;
    for (const claim of claims) {
      const fits =
        (!verdict || claim.dataset.verdict === verdict) &&
        (!family || claim.dataset.family === family) &&
        words.every((word) => texts.get(claim).includes(word));
      claim.hidden = !fits;
      shown += fits;
    }
    for (const section of sections) section.hidden = !section.querySelector(".claim:not([hidden])");
    byId("shown").textContent = `${shown} of ${claims.length} claims`;
  };

  byId("filters").addEventListener("input", filter);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
