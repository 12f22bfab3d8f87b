// Browsers run no worker in a page that was opened from a file. There the search runs in a hidden frame instead, so that
// the site needs no server. What a worker and its page post to each other is handed over by calls.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((resolve) => {
        window.addEventListener("message", ({ source, data }) => {
          if (source !== frame.contentWindow) return;
          if (data.started) resolve(frame.contentWindow);
          else this.dispatchEvent(new MessageEvent("message", { data: data.posted }));
        });
      });
      // In a frame, `postMessage` would post to the frame itself.
      const bridge = "self.postMessage = (posted) => parent.postMessage({ posted }, '*')";
      const started = "parent.postMessage({ started: true }, '*')";
      const script = new URL(url, location.href);
      frame.srcdoc = `<script>${bridge}</script><script src="${script}"></script><script>${started}</script>`;
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then((frame) => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
