// The travel desk for JavaScript: its settings from the environment, the story and the tools from the model server.

const root = process.env.MODEL_ROOT;

/** What the Python side says: agent, instructions, model, service, tools (name, description, JSON schema), variant. */
export const desk = JSON.parse(process.env.GOLDEN_DESK);
export const variant = desk.variant;

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${root}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const told = await response.json();
  if (!response.ok) throw new Error(told.error.message);
  return told;
}

/** Return what the story's tool returns, or throw as it does. */
export async function run(name, args) {
  return (await post(`/tools/${name}`, args)).result;
}

/** Play all first turns, then all second ones: `say(conversation id, query)` returns the answer. */
export async function play(say) {
  const story = await (await fetch(`${root}/story`)).json();
  const longest = Math.max(...story.map((conversation) => conversation.turns.length));
  for (let index = 0; index < longest; index += 1) {
    for (const [number, { id, turns }] of story.entries()) {
      if (index >= turns.length) continue;
      await post("/now", { conversation: number, turn: index });
      const text = await say(id, turns[index].query);
      if (text !== turns[index].answer) throw new Error(`${id} turn ${index + 1}: got ${JSON.stringify(text)}`);
    }
  }
}
