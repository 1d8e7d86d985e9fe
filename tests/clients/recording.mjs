// A fetch for an SDK: each of its POSTs is added to `posts`, with what becomes of it. A clone of the response tells what came
// and that it ended, and takes nothing from the SDK.
export const recording = (posts) => async (input, init) => {
  if (init?.method !== "POST") return fetch(input, init);
  const post = { message: JSON.parse(init.body) };
  posts.push(post);
  const response = fetch(input, init).then((response) => (post.response = response));
  const end = async () => {
    const copy = (await response).clone();
    const last = (await copy.text()).trim().split("\n").at(-1).replace(/^data:/, ""); // the whole of a JSON body
    return { status: copy.status, answer: last && JSON.parse(last) };
  };
  post.end = end().catch((error) => ({ error }));
  return response;
};
