// From just before a job is added to the start of its task, job by job on a timetable.

const WARM_UP = 200;

/**
 * peer.open(url, onStart): starts a worker that tells onStart the number of each job it starts; answers { add, stop }.
 */
export async function latency(peer, url, rate, count) {
  const added = [];
  const millis = [];
  const starts = [];
  const { add, stop } = await peer.open(url, (number) => {
    millis[number] = performance.now() - added[number];
    starts[number]();
  });
  const one = async (number) => {
    const started = new Promise((resolve) => {
      starts[number] = resolve;
    });
    added[number] = performance.now();
    await add(number);
    await started;
  };
  // One after the other, uncounted: connections, plans and compiled code warm up.
  for (let number = 0; number < WARM_UP; number += 1) await one(number);
  const began = performance.now() + 100;
  const adding = Array.from({ length: count }, async (_, place) => {
    const due = began + (place * 1000) / rate;
    await new Promise((resolve) => setTimeout(resolve, due - performance.now()));
    await one(WARM_UP + place);
  });
  await Promise.all(adding);
  await stop();
  return { millis: millis.slice(WARM_UP) };
}
